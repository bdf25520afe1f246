"""Other encoders under LAEF's embedder, one file each (docs/explanation/ablations.md).

Each is a plug-in of the room of models that is asked for by its name and listed apart. Their
networks are `laef.Laef` with another `LaefConfig`: depth, topology and encodings are choices of the
configuration, so that a file says only how one block mixes its nodes. As published they stand at
width 512 in the paper's budget of about 3.7 million parameters.
"""

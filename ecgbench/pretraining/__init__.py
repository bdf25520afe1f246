"""How LAEF is made: descriptors of segments, codebooks of them."""

"""What plug-ins declare, and what a study is made of: frozen data without input or output."""

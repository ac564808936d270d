"""`forecast export`: a checkpoint as safetensors and a program that needs no forecast."""

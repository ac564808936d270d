"""`forecast auto`: from a file to the best forecast that there is time for."""

"""`forecast update`: a forecast that is kept up as rows come in."""

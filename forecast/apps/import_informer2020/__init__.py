"""`forecast import-informer2020`: a checkpoint of the authors, read and made one of ours."""

"""Where the parts of a forecast are made when it is not this process: imported with engine=ray alone."""

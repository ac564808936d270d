"""`forecast backtest`: what a model would have forecast at rolling origins."""

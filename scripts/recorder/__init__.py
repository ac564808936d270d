"""Two commits side by side: do they leave the same weights, errors, forecasts, pictures and sentences?"""

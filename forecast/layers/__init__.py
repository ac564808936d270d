"""Building blocks of the models: projections, the attention layer, embeddings, distilling, feed-forward."""

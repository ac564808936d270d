"""LogTrans."""

from forecast.layers.causal_blocks import PostNormLayer
from forecast.models.decoder_only import DecoderOnly


class LogTrans(DecoderOnly):
    """Decoder-only: post-norm layers of LogSparse attention, its queries and keys made by causal convolutions.

    Li et al. 2019, "Enhancing the Locality and Breaking the Memory Bottleneck of Transformer on Time Series
    Forecasting", with `attention=logsparse`. Differs: the paper forecasts the parameters of a distribution and learns
    an embedding of the series' number; here squared error, and all columns at once. Positions are sinusoids.

    The arguments are those of `DecoderOnly`.
    """

    layer = PostNormLayer

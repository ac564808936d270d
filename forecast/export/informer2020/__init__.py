"""The authors' own Informer (Informer2020 at 29f2a73): what its files hold, and where each tensor lies in ours."""

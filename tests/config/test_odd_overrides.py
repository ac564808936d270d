"""Whatever stands on the command line, the answer is a message, and a short one."""

import pytest
from program import TINY, refusal

ODD = {
    **{
        word: word
        for word in ("()", "[]", "{}", "=", "~", "+", "++", "a=b=c", "a@b:c", "a@b:c=d", "=a", "@", "@=", ":")
    },
    **{
        word: word
        for word in ("a=", ".", ".=1", "..=1", "a..b=1", "~~", "~=", "+=", "++=", "/", "/=1", "a/b=", "$", "${a}")
    },
    **{
        word: word
        for word in (
            "a=${b",
            "a=${b}",
            "seed=${seed}",
            "seed=${oc.env:NO_SUCH}",
            "seed=${nothing:}",
            "a='",
            'a="',
            "\\",
        )
    },
    **{
        word: word
        for word in ("seed=()", "seed=[]", "seed={}", "model=[]", "model={}", "model=()", "model=[a,b]", "model=")
    },
    **{
        word: word
        for word in ("~seed", "~model", "~hydra", "~hydra.run", "hydra=1", "hydra=null", "hydra.run=1", "data=")
    },
    **{word: word for word in ("seed=choice()", "seed=range(1)", "seed=range(0,1e9)", "seed=glob(*)", "seed=sort(1)")},
    **{
        word: word
        for word in ("seed=int(x)", "seed=float(1,2)", "seed=nothing(1)", "model@=dlinear", "model@a.b=dlinear")
    },
    **{
        word: word
        for word in ("+model=dlinear", "++model=dlinear", "~model=dlinear", "hydra/launcher=", "hydra/launcher=[]")
    },
    **{
        word: word for word in ("hydra.mode=MULTIRUN", "hydra.mode=x", "hydra.searchpath=1", "hydra.searchpath=[1]", "")
    },
    **{word: word for word in ("hydra.searchpath=[x://y]", "hydra.job.chdir=x", "hydra.verbose=x", "hydra.run.dir=")},
    **{word: word for word in ("hydra.run.dir=null", "hydra.run.dir=[]", "hydra.sweep=1", "hydra.output_subdir=[]")},
    **{word: word for word in ("hydra.job_logging=1", "hydra.job_logging=null", "hydra.job.name=[]", "hydra.help=1")},
    "an emoji": "\N{GRINNING FACE}=1",
    "a blank": " ",
    "a line end": "seed=\n1\n",
    "a lone surrogate": "seed=\udcff",
    "NUL": "seed=a\0b",
    "NUL in a path": "hydra.run.dir=a\0b",
    "long": "x" * 100_000,
    "long key": "x" * 100_000 + "=1",
    "long value": "seed=" + "x" * 100_000,
    "long option": "model=" + "x" * 100_000,
    "long path": "hydra.run.dir=" + "x" * 300,
    "deep": "seed=" + "[" * 300,
    "very deep": "seed=" + "[" * 3000 + "]" * 3000,
    "many dots": ".".join("a" * 2000) + "=1",
}


SWEPT = ("()", "+=", "seed=range(1)", "seed=range(0,1e9)", "hydra.searchpath=[x://y]", "long", "very deep", "model={}")


@pytest.mark.parametrize(
    ("word", "sweep"),
    [*((word, False) for word in ODD.values()), *((ODD[name], True) for name in SWEPT)],
    ids=[*ODD, *(f"-m {name}" for name in SWEPT)],
)
def test_an_odd_override_is_answered(word, sweep, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        said = refusal(capsys, "train", *["-m"] * sweep, *TINY, "checks=null", word)
    except AssertionError as error:
        assert "was not refused" in str(error)
        return
    assert said.strip() and len(said) < 2500

"""As much of Ray as the program calls, inside the test's process: one actor after another, without a cluster."""

import os
import sys
import types
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from unittest import mock

import torch


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class ActorDiedError(RayError):
    pass


class Method:
    def __init__(self, ray, actor, name):
        self.ray, self.actor, self.name = ray, actor, name

    def remote(self, *given):
        self.ray.calls.append((self.name, *given))
        return (len(self.ray.calls), self.actor, self.name, given)


class Actor:
    def __init__(self, ray, cls, given):
        self.ray, self.made = ray, cls(*given)

    def __getattr__(self, name):
        return Method(self.ray, self, name)


class FakeRay(types.ModuleType):
    """cpus: of each machine. killing(name, given): whether the worker dies at this call. refused: what init raises."""

    def __init__(self, cpus=(1, 1), killing=lambda *_: False, refused=None):
        super().__init__("ray")
        self.__spec__ = ModuleSpec("ray", None)
        self.cpus, self.killing, self.refused = cpus, killing, refused
        self.calls, self.options, self.initialised, self.killed = [], None, None, []
        self.exceptions = types.SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def init(self, **keys):
        self.initialised = keys
        if self.refused:
            raise self.refused

    def shutdown(self):
        self.initialised = None

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": float(count)}} for count in self.cpus]

    def remote(self, **options):
        self.options = options
        return lambda cls: types.SimpleNamespace(remote=lambda *given: Actor(self, cls, given))

    def wait(self, refs, *, num_returns, timeout):
        refs = sorted(refs, key=lambda ref: ref[0])
        return refs[-num_returns:], refs[:-num_returns]

    def kill(self, actor):
        self.killed.append(actor)

    def get(self, ref):
        _, actor, name, given = ref
        if self.killing(name, given):
            raise ActorDiedError("The actor died unexpectedly before finishing this task.\n\tclass_name: Worker")
        return getattr(actor.made, name)(*given)


@contextmanager
def faked(**keys):
    """A worker's changes of the environment and the threads, which are the test's own, are taken back."""
    ray, threads = FakeRay(**keys), torch.get_num_threads()
    with mock.patch.dict(sys.modules, {"ray": ray}), mock.patch.dict(os.environ):
        yield ray
    torch.set_num_threads(threads)

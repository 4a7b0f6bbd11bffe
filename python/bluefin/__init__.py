"""bluefin tunes GPU kernels. This module runs the program that comes with it.

    import bluefin

    tuned = bluefin.tune("model.txt", budget="quick")
    tuned.winners()                      # a pandas data frame, or a list of dicts where there is no pandas
    bluefin.results(tuned.state)         # every candidate

Whatever the program refuses is a `bluefin.Error` with its words.
"""

import json
import os
import subprocess
import sys
import sysconfig
import threading

__all__ = ["Error", "Tuned", "program", "results", "run", "tune"]


class Error(RuntimeError):
    """The program ended with an error: its words, and its exit code as `code`."""

    def __init__(self, words, code):
        super().__init__(words)
        self.code = code


def program():
    """The path of the program: `BLUEFIN_PROGRAM`, else the one that was installed with this module, else that of `PATH`."""
    named = os.environ.get("BLUEFIN_PROGRAM")
    if named:
        return named
    for scheme in (None, "posix_user"):
        folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        path = os.path.join(folder, "bluefin")
        if os.path.isfile(path):
            return path
    return "bluefin"


def run(*arguments, check=True):
    """Runs `bluefin ARGUMENTS...` and returns its standard output. Progress and notes go to standard error as they come.

    `check`: exit code 1, which is also that of findings, is an error.
    """
    output, _ = _run(arguments, (0,) if check else (0, 1))
    return output


def _run(arguments, fine, answers=False):
    """Standard output and exit code, which is one of those that are `fine`. `answers`: nothing on standard output is an error as well."""
    command = [program(), *map(str, arguments)]
    # A terminal gets bars; elsewhere, as in a notebook, standard error is Python's own.
    bars = sys.stderr is sys.__stderr__ and sys.stderr.isatty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=None if bars else subprocess.PIPE, text=True) as process:
        said = []
        reader = threading.Thread(target=_pass_on, args=(process.stderr, said), daemon=True)
        reader.start()
        output = process.stdout.read()
        reader.join()
    if process.returncode not in fine or answers and not output.strip():
        words = [line for line in said if line.startswith("error: ")] or [f"exit code {process.returncode}"]
        raise Error(f"{' '.join(command)}: {words[-1].strip()}", process.returncode)
    return output, process.returncode


def _pass_on(lines, said):
    for line in lines or ():
        said.append(line)
        sys.stderr.write(line)


def tune(*files, kernel=None, size=None, device=None, budget=None, state="bluefin.db", out="out", **flags):
    """Tunes problems on this machine and writes the databases, as `bluefin tune` does; the same call again continues.

    `files`: files of driver commands. `kernel`: a kernel spec, or several. `size`: the sizes of one problem of it as a dict, or a list
    of such. `flags`: any other flag of the verb by its name: `direction="F"`, `time="10m"`, `remeasure=True`; `with_="triton"`, since
    `with` is a word of Python.

    Returns a `Tuned`. A problem without a winner is no error: look at `Tuned.complete`.
    """
    arguments = ["tune", *files, "--json", "--state", state, "--out", out]
    for spec in _several(kernel):
        arguments += ["--kernel", spec]
    for sizes in _several(size):
        arguments += ["--size", ",".join(f"{name}={_word(value)}" for name, value in sizes.items())]
    arguments += _flags({"device": device, "budget": budget, **flags})
    output, code = _run(arguments, (0, 1), answers=True)
    return Tuned(json.loads(output), state=os.fspath(state), out=os.fspath(out), complete=code == 0)


def results(state=None, *, session=None, redis=None, **flags):
    """Every candidate of a session with what came of it: a pandas data frame, or a list of dicts where there is no pandas.

    `flags`: filters of `bluefin results`: `winner=True`, `failed=True`, `solver="ConvTiled"`, `limit=10`.
    """
    arguments = ["results", "--json"] + _flags({"state": state, "session": session, "redis": redis, **flags})
    return _frame([json.loads(line) for line in run(*arguments).splitlines()])


class Tuned:
    """What came of `tune`.

    `problems`: what came of each problem, with its winner, as dicts. `files`: the files that were written. `state`: the state file.
    `complete`: every problem has a winner.
    """

    def __init__(self, document, *, state, out, complete):
        self.document, self.state, self.out, self.complete = document, state, out, complete
        self.problems = document["problems"]
        self.files = [file["path"] for file in (document.get("export") or {}).get("files", [])]

    def winners(self):
        """A row for each problem with a winner: its params are columns named `param.NAME`."""
        rows = []
        for problem in self.problems:
            winner = dict(problem.get("winner") or {})
            if not winner:
                continue
            params = winner.pop("params", {})
            rows.append({
                "problem": problem["label"],
                **winner,
                **{f"param.{name}": value for name, value in params.items()},
            })
        return _frame(rows)

    def __repr__(self):
        with_winner = sum(1 for problem in self.problems if problem.get("winner"))
        return f"<bluefin.Tuned: {with_winner} of {len(self.problems)} problems have a winner, {self.state}>"


def _several(value):
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _word(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flags(flags):
    words = []
    for name, value in flags.items():
        # Words of Python end in an underscore.
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            values = ",".join(map(_word, value)) if isinstance(value, (list, tuple)) else value
            words += [flag, values]
    return words


def _frame(rows):
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)

#!/bin/sh
# Make a virtual environment with the pinned dependencies and this project: the one way for checkouts and images.
#
#   docker/install.sh [--venv DIR] [--python PYTHON] [--editable | --dev] [--core] [--slim] [--cpu | --cuda | --cuNNN]
#
# --venv DIR      where the environment goes; .venv beside this project's pyproject.toml if not given
# --python PYTHON the interpreter to make it from, 3.11 or newer; python3 if not given
# --editable      the project as it lies there (make sweep)
# --dev           the same with what its tests and linters need (make setup)
# --core          what trials and launches need alone: no dashboard, search, LoRA, hub datasets or object stores
# --slim          without what only builds, debuggers and other languages need, for images; wants strip, of binutils
# --cpu, --cuda   insist on that build of torch, in place of another that is there
# --cuNNN         insist on torch for an older CUDA, e.g. --cu126 for CUDA 12.6
#
# Without one of these three the build that is there stays. Where none is, it is the one for CUDA if an NVIDIA driver is
# loaded, else the CPU build, without 3 GB of CUDA libraries; if pip cannot get that one, the other is taken and said.
# PYTORCH_INDEX names another package index for the builds of torch; pip's own settings and variables hold as well.
# All but torch and what only its build brings are files whose hashes docker/hashes names. HASHES=no takes any file of the
# pinned versions: for an index that builds its own, or a system that those files do not know (Windows, musl).
# Exit codes: 0 done, 2 a wrong option, otherwise that of the step that failed.
set -eu

say() { printf 'install: %s\n' "$*" >&2; }
wrong() { say "$*"; exit 2; }

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv=$root/.venv python=python3 editable='' extras=all slim='' torch=''
while [ $# -gt 0 ]; do
  case $1 in
    --venv | --python)
      [ $# -ge 2 ] || wrong "$1 needs a value."
      if [ "$1" = --venv ]; then venv=$2; else python=$2; fi
      shift
      ;;
    --editable) editable=yes ;;
    --dev) editable=yes extras=dev ;;
    --core) extras=core ;;
    --slim) slim=yes ;;
    --cpu | --cuda | --cu[0-9]*)
      [ -z "$torch" ] || [ "$torch" = "${1#--}" ] || wrong "--$torch and $1 exclude each other."
      torch=${1#--}
      ;;
    *) wrong "unknown option $1; known are --venv, --python, --editable, --dev, --core, --slim, --cpu, --cuda and --cuNNN." ;;
  esac
  shift
done

command -v "$python" >/dev/null || wrong "there is no $python; name an interpreter with --python."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  wrong "Python 3.11 or newer is needed and $python is older; name another with --python (make PYTHON=...)."

# What builds the project is held to the pins too: by the first variable in older pips, by the second in newer ones.
# As an address, since both are lists of words and the folder may have a space in its name.
pins=$("$python" -c 'import pathlib, sys; print(pathlib.Path(sys.argv[1]).as_uri())' "$root/constraints.txt")
PIP_CONSTRAINT=$pins PIP_BUILD_CONSTRAINT=$pins
PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
export PIP_CONSTRAINT PIP_BUILD_CONSTRAINT PIP_DISABLE_PIP_VERSION_CHECK PYTHONDONTWRITEBYTECODE

# The torch that is there: its version, then cpu, or cuda and the build's own CUDA; nothing without one.
built() {
  "$venv/bin/python" -c 'import torch; cuda = torch.version.cuda
print(torch.__version__.partition("+")[0], "cuda cu" + cuda.replace(".", "") if cuda else "cpu")' 2>/dev/null || true
}
is_built() { case " $(built) " in *" $1 "*) ;; *) return 1 ;; esac; }

pinned=$(sed -n 's/^torch==//p' "$root/constraints.txt")
# is_offered VERSION [OPTION ...]: whether pip, with these options, can get that version of torch for this Python.
is_offered() {
  wanted=$1 && shift
  "$venv/bin/python" -m pip index versions torch --retries 1 --timeout 15 "$@" 2>/dev/null | tr -s ', ' '\n' |
    grep -qxF "$wanted"
}
# As `trials.hardware.machine.may_have_gpus` asks for NVIDIA's.
has_driver() { [ -d /proc/driver/nvidia ] || "$python" -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null; }

# What pip is told where no build was named: nothing where one of the pinned version is there, or where it finds the
# right one by itself; on other systems than Linux there is but one.
pip_option_of_machine() {
  there=$(built) index=${PYTORCH_INDEX:-https://download.pytorch.org/whl/cpu}
  case $there in
    "$pinned "*) return ;;
    *cuda*) right=cuda ;;
    *cpu) right=cpu ;;
    *) if has_driver; then right=cuda; else right=cpu; fi ;;
  esac
  [ "$(uname -s)" = Linux ] || return 0
  if [ $right = cuda ]; then
    if is_offered "$pinned"; then
      echo "torch===$pinned"
    else
      say "pip finds no build of torch $pinned for CUDA: what it finds is taken. PYTORCH_INDEX with --cuda names an index."
    fi
  elif is_offered "$pinned+cpu"; then
    return
  elif is_offered "$pinned+cpu" --extra-index-url "$index"; then
    echo "--extra-index-url=$index"
  else
    say "no CPU build of torch $pinned at $index: the main index's is taken, with 3 GB for CUDA. PYTORCH_INDEX names another."
  fi
}

"$python" -m venv "$venv"
isolation=''
if [ "${HASHES:-yes}" != no ]; then
  # First the tested pip, which then gets the others, and what builds the project: in an environment of its own that would
  # be without hashes.
  for file in build "$extras"; do
    "$venv/bin/python" -m pip install --quiet --no-deps --require-hashes --requirement "$root/docker/hashes/$file.txt" || {
      say "pip cannot get what docker/hashes/$file.txt names. HASHES=no takes any file of the pinned versions, unchecked."
      exit 1
    }
  done
  unset PIP_BUILD_CONSTRAINT
  isolation=--no-build-isolation
fi
case $extras in core) extras='' ;; *) extras="[$extras]" ;; esac
case $torch in
  # Their versions end in +cpu or +cuNNN and sort above those without, so pip takes them where both are offered.
  cpu | cu[0-9]*) set -- --extra-index-url "${PYTORCH_INDEX:-https://download.pytorch.org/whl/$torch}" ;;
  # The main index has the CUDA build for Linux; pip's own settings may name an index with +cpu, which === excludes.
  cuda)
    if [ -n "${PYTORCH_INDEX:-}" ]; then
      set -- --extra-index-url "$PYTORCH_INDEX"
    else
      set -- "torch===$pinned"
    fi
    ;;
  *)
    option=$(pip_option_of_machine)
    set -- ${option:+"$option"}
    ;;
esac
if [ -n "$torch" ] && [ -n "$(built)" ] && ! is_built "$torch"; then
  say "replacing the build of torch that is there ($(built)) by one of $torch."
  "$venv/bin/python" -m pip uninstall --quiet --yes torch
fi
if [ -n "$editable" ]; then
  "$venv/bin/python" -m pip install --quiet $isolation "$@" --editable "$root$extras"
  # Else the first launch does, for six seconds.
  "$venv/bin/python" -m compileall -q "$root/orchestrator" "$root/trials" "$root/dashboards" || true
else
  "$venv/bin/python" -m pip install --quiet --no-compile $isolation "$@" "$root$extras"
  packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') compiled=$packages
  if [ -n "$slim" ]; then
    # Packages' own tests and data, what extensions are built with or notebooks show, Java's workers, sources' maps and
    # templates, parts that nothing here imports, second names of libraries, and pip.
    find "$venv" \( -path '*/tests/*' -o -path '*/torch/test/*' -o -path '*/torch/include/*' \
      -o -path '*/torch/bin/*' ! -name torch_shm_manager -o -path '*/ray/jars/*' -o -path '*/ray/rllib/*' \
      -o -path '*/ray/llm/*' -o -path '*/pyarrow/*flight*' \
      -o -path '*/pyarrow/lib*.so' ! -path '*/lib.*' -o -path '*/pyarrow/lib*.so.*.*.*' -o -path '*/share/jupyter/*' \
      -o -path '*/plotly/labextension/*' -o -name widgetbundle.js \
      -o -path '*/transformers/models/*/modular_*.py' -o -name '*_test.so' \
      -o -path "$packages/pip[/-]*" -o -path "$venv/bin/pip*" -o -name '*.dev.js' -o -name '*.[achf]' -o -name '*.cpp' \
      -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.hpp' -o -name '*.px[di]' -o -name '*.pyx' \
      -o -name '*.pyi' -o -name '*.map' \) -delete
    # Names for debuggers; libraries in *.libs were laid out anew by another tool, and strip would spoil them.
    find "$packages" -type f \( -name '*.so' -o -name '*.so.*' -o -name raylet -o -name gcs_server \) \
      ! -path '*.libs/*' ! -path '*/nvidia/*' -exec strip --strip-unneeded {} +
    # What this program imports, and Ray's own processes: a third of all bytecode, and starts are as fast as with all.
    compiled=$("$venv/bin/python" -P - "$packages" <<'END'
import importlib, pkgutil, sys
for ours in ("dashboards", "orchestrator", "trials"):
    for module in pkgutil.walk_packages(importlib.import_module(ours).__path__, f"{ours}."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError:  # of an extra that is not installed
            pass
files = [getattr(module, "__file__", None) or "" for module in sys.modules.values()]
print(*sorted(file for file in files if file.startswith(sys.argv[1]) and file.endswith(".py")), sep="\n")
print(*(f"{sys.argv[1]}/ray/{part}" for part in ("_private", "autoscaler", "dashboard")), sep="\n")
END
    )
  fi
  # Compiled once, without times of files in it: equal trees give equal images, and a read-only root starts fast.
  # Some packages ship files for other Pythons, which do not compile and are never imported.
  echo "$compiled" | "$venv/bin/python" -m compileall -qq --invalidation-mode unchecked-hash -i - || true
fi

if [ -n "$torch" ]; then
  if ! is_built "$torch"; then
    found=$(built)
    say "torch for $torch was asked for, and pip found ${found:-none that works}; name an index that has it in PYTORCH_INDEX."
    exit 1
  fi
fi

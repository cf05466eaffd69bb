#!/bin/sh
# Make a virtual environment with the pinned dependencies and this project: the one way for checkouts and images.
#
#   docker/install.sh [--venv DIR] [--python PYTHON] [--dev] [--slim] [--cpu | --cuda]
#
# --venv DIR      where the environment goes; .venv beside this project's pyproject.toml if not given
# --python PYTHON the interpreter to make it from, 3.11 or newer; python3 if not given
# --dev           the project as it lies there, editable, with what its tests and linters need (make setup)
# --slim          without what only builds, debuggers and other languages need, for images; wants strip, of binutils
# --cpu, --cuda   insist on that build of torch; without either any build will do
#
# PYTORCH_INDEX names another package index for the builds of torch; pip's own settings and variables hold as well.
# Exit codes: 0 done, 2 a wrong option, otherwise that of the step that failed.
set -eu

say() { printf 'install: %s\n' "$*" >&2; }
wrong() { say "$*"; exit 2; }

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv=$root/.venv python=python3 dev='' slim='' torch=''
while [ $# -gt 0 ]; do
  case $1 in
    --venv | --python)
      [ $# -ge 2 ] || wrong "$1 needs a value."
      if [ "$1" = --venv ]; then venv=$2; else python=$2; fi
      shift
      ;;
    --dev) dev=yes ;;
    --slim) slim=yes ;;
    --cpu | --cuda)
      [ -z "$torch" ] || [ "$torch" = "${1#--}" ] || wrong "--cpu and --cuda exclude each other."
      torch=${1#--}
      ;;
    *) wrong "unknown option $1; known are --venv, --python, --dev, --slim, --cpu and --cuda." ;;
  esac
  shift
done

command -v "$python" >/dev/null || wrong "there is no $python; name an interpreter with --python."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  wrong "Python 3.11 or newer is needed and $python is older; name another with --python (make PYTHON=...)."

# What builds the project is held to the pins too: by the first variable in older pips, by the second in newer ones.
PIP_CONSTRAINT=$root/constraints.txt PIP_BUILD_CONSTRAINT=$root/constraints.txt
PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
export PIP_CONSTRAINT PIP_BUILD_CONSTRAINT PIP_DISABLE_PIP_VERSION_CHECK PYTHONDONTWRITEBYTECODE

"$python" -m venv "$venv"
case $torch in
  # Its versions end in +cpu and sort above those without, so pip takes it where both are offered.
  cpu) set -- --extra-index-url "${PYTORCH_INDEX:-https://download.pytorch.org/whl/cpu}" ;;
  # The main index has the CUDA build for Linux.
  cuda) set -- ${PYTORCH_INDEX:+--extra-index-url "$PYTORCH_INDEX"} ;;
  *) set -- ;;
esac
if [ -n "$dev" ]; then
  "$venv/bin/python" -m pip install --quiet "$@" --editable "${root}[dev]"
else
  "$venv/bin/python" -m pip install --quiet --no-compile "$@" "$root"
  packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') compiled=$packages
  if [ -n "$slim" ]; then
    # Packages' own tests, what extensions are built with, Java's workers, sources' maps, and below names for debuggers.
    find "$packages" \( -path '*/tests/*' -o -path '*/torch/test/*' -o -path '*/torch/include/*' \
      -o -path '*/torch/bin/*' ! -name torch_shm_manager -o -path '*/ray/jars/*' \
      -o -path '*/pyarrow/*flight*' -o -name '*.dev.js' \
      -o -name '*.h' -o -name '*.a' -o -name '*.pyx' -o -name '*.map' \) -delete
    find "$packages"/torch/lib "$packages"/ray "$packages"/pyarrow -type f \
      \( -name '*.so*' -o -name raylet -o -name gcs_server \) -exec strip --strip-unneeded {} +
    # What this program imports, and Ray's own processes: a third of all bytecode, and starts are as fast as with all.
    compiled=$("$venv/bin/python" -P - "$packages" <<'END'
import importlib, pkgutil, sys
for ours in ("dashboards", "orchestrator", "trials"):
    for module in pkgutil.walk_packages(importlib.import_module(ours).__path__, f"{ours}."):
        if not module.name.startswith("orchestrator.trackers."):  # of which each needs a package that is an extra
            importlib.import_module(module.name)
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
  found=$("$venv/bin/python" -c 'import torch; print("cuda" if torch.version.cuda else "cpu")')
  if [ "$found" != "$torch" ]; then
    say "a $torch build of torch was asked for and pip found a $found build; set PYTORCH_INDEX to an index that has it."
    exit 1
  fi
fi
touch "$venv/ready"

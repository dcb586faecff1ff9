"""Writes docs/reference/options.md from what the programs' --help say: LAMBENT_PREFIX=build/release python3 tests/docs/options.py > docs/reference/options.md.
test_mentions.py holds the page against them.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import help_text  # noqa: E402

HEAD = """# Every option

What `--help-all` says of each verb of `lambent`, on one page; [cli.md](cli.md) says what the verbs are for. This page is written by
`tests/docs/options.py` and held against the programs by a test. Verbs that ask a worker also take
`--endpoint http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`, for https `--ca FILE`, `--client-certificate FILE` and `--client-key FILE` ([tls.md](../operate/tls.md)),
`--token-file FILE` (else `LAMBENT_TOKEN`) and `--tenant NAME` ([tenants.md](../operate/tenants.md#tokens)), or `--context NAME` ([cli.md](cli.md#contexts)).
"""

# Those, and what every program has.
SHARED = {"--help", "--endpoint", "--ca", "--client-certificate", "--client-key", "--token-file", "--tenant", "--context"}

# What differs from user to user: root's, then that of others.
DEFAULTS_BY_USER = {("serve", "--state"): "/var/lib/lambent` or `~/.local/share/lambent",
                    ("serve", "--run"): "/run/lambent` or `$XDG_RUNTIME_DIR/lambent"}


def cell(text):
    return text.replace("|", "\\|")


def page():
    parts = [HEAD]
    for words in sorted(help_text.commands()):
        options = [option for option in help_text.options_of(*words) if not SHARED & set(option.names)]
        if options:
            parts.append(f"\n## {' '.join(words)}\n\n| option | default | meaning |\n|---|---|---|\n")
        for option in options:
            default = DEFAULTS_BY_USER.get((*words, option.names[0]), cell(option.default))
            left = ", ".join(f"`{cell(name)}`" for name in option.names) + (f" {cell(option.value)}" if option.value else "")
            parts.append(f"| {left} | {f'`{default}`' if default else ''} | "
                         f"{cell(option.meaning)}{' (has to be given)' if option.required else ''} |\n")
    return "".join(parts)


if __name__ == "__main__":
    print(page(), end="")

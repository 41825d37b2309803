"""``specgen chat``: a conversation of many turns, whose caches are kept between them."""

from __future__ import annotations

from typing import Any

import click

from specgen.cli.conversation import COMMANDS, Conversation, complain
from specgen.cli.environment import Environment
from specgen.cli.loading import load_models
from specgen.cli.logs import library_messages
from specgen.cli.options import common_options, pass_environment
from specgen.cli.output import choose_form
from specgen.cli.readers import Reader, reader_for
from specgen.cli.settings import Settings, generation_options
from specgen.errors import SpecgenError


@click.command("chat")
@generation_options()
@common_options
@pass_environment
def command(environment: Environment, /, **options: Any) -> int:
    """Talk with a model; only what is new in a turn is computed.

    Enter sends, Alt-Enter begins a new line, Ctrl-C ends an answer, Ctrl-D ends the conversation. /help lists commands
    such as /reset, /stats and /set. Piped input is a message a line.

    \b
    Examples:
      specgen chat
      specgen chat -p qwen-coder-7b-0.5b --system "Answer briefly."
      specgen chat -t 0.8 --seed 7 --stats
      printf 'Hi\nTell me more\n' | specgen chat
    """  # noqa: D301 - click wants the character
    settings = Settings(**options)
    profile = settings.load_profile(environment)
    request = settings.request(profile, environment.draw_seed() if settings.seed is None else settings.seed)
    form = choose_form(environment, live=settings.live)
    with library_messages(environment):
        from specgen.api import Session
        from specgen.learned import Learned

        pair = load_models(environment, profile, settings)
        session = Session(pair, memory=Learned(pair))
        talk = Conversation(environment, session, request, form, settings.highlight, settings.stats, messages=[])
        if environment.stdin_is_terminal:
            dot = " · " if environment.unicode else " | "
            environment.note(dot.join([pair.describe(), "/help lists the commands", "Ctrl-D ends"]), dim=True)
        return converse(environment, talk, reader_for(environment, COMMANDS))


def converse(environment: Environment, talk: Conversation, reader: Reader) -> int:
    """Read messages and answer them until there are no more; returns the exit code."""
    failed = False
    while True:
        try:
            text = reader.read()
            if text.startswith("/"):
                if not talk.obey(text):
                    break
            elif text.strip():
                code = talk.turn(text)
                if code:
                    return code
        except EOFError:
            break
        except KeyboardInterrupt:
            environment.note("(Ctrl-D ends the conversation)", dim=True)
        except SpecgenError as error:
            complain(environment, error)
            failed = True
    # A person has seen the error; a script needs the exit code.
    return int(failed and not environment.stdin_is_terminal)

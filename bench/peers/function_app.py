"""The work as a Python handler."""
import work


def handler(event, context):
    del context
    return work.answer(event)

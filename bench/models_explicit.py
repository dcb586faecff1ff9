"""A client of explicit loading, as a client of Triton with --model-control-mode=explicit has to be: it knows what each model holds, loads
one before it asks it, and unloads those first that it used least recently. Used by models_worker.py."""
import collections
import contextlib
import threading


class ExplicitLoader:
    """sizes: what each model holds; room: what all may hold together. load(name) and unload(name) are the server's. Any thread."""

    def __init__(self, sizes, room, load, unload):
        self.sizes, self.room = sizes, room
        self.load, self.unload = load, unload
        self.changed = threading.Condition()
        self.users = collections.OrderedDict()  # of each model that is there or comes: requests of it; the least recently used first
        self.coming = set()

    @contextlib.contextmanager
    def loaded(self, name):
        """The model is loaded, and stays so until the end."""
        self._take(name)
        try:
            yield
        finally:
            with self.changed:
                self.users[name] -= 1
                self.changed.notify_all()

    def _take(self, name):
        with self.changed:
            # One that is at work is not unloaded, so who finds no room waits for the end of a request.
            while name not in self.users and (victims := self._victims(name)) is None:
                self.changed.wait()
            if name in self.users:
                self.users[name] += 1
                self.users.move_to_end(name)
                self.changed.wait_for(lambda: name not in self.coming)
                return
            for victim in victims:
                del self.users[victim]
            self.users[name] = 1
            self.coming.add(name)
        try:
            for victim in victims:
                self.unload(victim)
            self.load(name)
        finally:
            with self.changed:
                self.coming.discard(name)
                self.changed.notify_all()

    def _victims(self, name):
        """Who leaves for it; None: too much is at work."""
        held = sum(self.sizes[each] for each in self.users)
        victims = []
        for each, users in self.users.items():
            if held + self.sizes[name] <= self.room:
                break
            if users == 0:
                victims.append(each)
                held -= self.sizes[each]
        return victims if held == 0 or held + self.sizes[name] <= self.room else None

from .cli import start

start()

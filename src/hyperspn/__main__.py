from hyperspn_command import start

start()

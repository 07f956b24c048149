"""A serving host made of data: SSH, engine API, logs and GPU counters, all from one scenario file.

with SimulatedHost("a6000-dflash") as host:   # dflash_doctor.simulate.host
    host.target, host.ssh_config              # for SSH; host.url for the engine alone
"""

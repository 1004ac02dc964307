"""A rank using the PMI2 protocol like libpmi2 and MPICH: all ranks send the UUID of their GPU to the first rank, and it
prints them."""
import ctypes
import os
import socket


class Pmi2:
    """The connection made by the starter of the ranks."""

    def __init__(self):
        self.socket = socket.socket(fileno=int(os.environ["PMI_FD"]))
        self.file = self.socket.makefile("rb")
        self.socket.sendall(b"cmd=init pmi_version=2 pmi_subversion=0\n")
        assert b"rc=0" in self.file.readline()
        answer = self.call("fullinit", pmijobid=os.environ["PMI_JOBID"], pmirank=os.environ["PMI_RANK"], threaded="FALSE")
        self.rank, self.size = int(answer["rank"]), int(answer["size"])

    def call(self, command, **values):
        text = "".join(f"{name}={value};" for name, value in {"cmd": command, **values}.items()).encode()
        self.socket.sendall(b"%6d%s" % (len(text), text))
        answer = self.file.read(int(self.file.read(6))).decode()
        fields = dict(field.split("=", 1) for field in answer.split(";") if field)
        assert fields["cmd"] == f"{command}-response" and fields.get("rc", "0") == "0", answer
        return fields


def own_uuid():
    """UUID of the only device."""
    cuda = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    uuid = (ctypes.c_ubyte * 16)()
    assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value == 1, count
    assert cuda.cuDeviceGetUuid(uuid, 0) == 0
    return bytes(uuid).hex()


def main():
    world = Pmi2()
    world.call("kvs-put", key=f"gpu{world.rank}", value=own_uuid())
    world.call("kvs-fence")
    if world.rank == 0:
        for rank in range(world.size):
            found = world.call("kvs-get", jobid=os.environ["PMI_JOBID"], srcid=-1, key=f"gpu{rank}")
            print(f"rank {rank}: {found['value']}")
    world.call("finalize")


main()

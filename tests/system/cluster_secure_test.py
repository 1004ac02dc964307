"""--secure: all traffic between hosts goes through WireGuard, running in user space here."""
import pathlib
import shutil
import subprocess
import sys
import unittest

from box import SCRIPT, Box, BoxTest
from harness import OF_MPICH, OWN_FAILURE, app, of_open_mpi

# MPICH cannot be restricted to an interface.
RELAYS = ("ucx",) if OF_MPICH else ("mpi", "ucx")
PORT = 51820
# Prints protocol and ports of each IPv4 packet on the host's eth0, except packets of WireGuard and of the kernel itself
# (IGMP). Prints a first line when it listens, and at the end of its input the number of WireGuard packets.
SNIFFER = """
import socket, struct, sys, threading
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
raw.bind(("eth0", 0))
raw.settimeout(0.1)
print("listens", flush=True)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
encrypted = 0
while not ended.is_set():
    try:
        frame = raw.recv(65536)
    except TimeoutError:
        continue
    kind, = struct.unpack("!H", frame[12:14])
    if kind != 0x0800:
        continue
    packet = frame[14:]
    protocol, payload = packet[9], packet[(packet[0] & 15) * 4:]
    source, target = struct.unpack("!HH", payload[:4])
    if protocol == 17 and PORT in (source, target):
        encrypted += 1
    elif protocol != 2:
        print("plain", protocol, source, target, flush=True)
print("encrypted", encrypted, flush=True)
""".replace("PORT", str(PORT))


def setUpModule():
    missing = [name for name in ("wireguard-go", "wg") if shutil.which(name) is None]
    if missing:
        raise unittest.SkipTest(f"no WireGuard: {', '.join(missing)} not found")
    box = BoxTest.box = Box([0, 1, 1])
    try:
        connect(box)
    except BaseException:
        tearDownModule()
        raise


def tearDownModule():
    BoxTest.box.down()
    BoxTest.box = None


def connect(box):
    """Connects each two hosts by a tunnel. The tunnels' interfaces have different names on each host, and the hosts'
    names resolve to the tunnels' addresses."""
    keys = [subprocess.run(["wg", "genkey"], capture_output=True, text=True, check=True).stdout for _ in box.hosts]
    public = [subprocess.run(["wg", "pubkey"], input=key, capture_output=True, text=True, check=True).stdout.strip()
              for key in keys]
    for number, host in enumerate(box.hosts):
        name = f"w{box.name[1:7]}{number}"
        peers = [word for other in range(len(box.hosts)) if other != number for word in (
            "peer", public[other], "allowed-ips", f"10.78.0.{other + 1}/32", "endpoint", f"10.77.0.{other + 1}:{PORT}")]
        script = (f"wireguard-go {name} 2>&1 && wg set {name} listen-port {PORT} private-key /dev/stdin \"$@\" && "
                  f"ip address add 10.78.0.{number + 1}/24 dev {name} && ip link set {name} up")
        result = subprocess.run(box.on(host, "sh", "-c", script, "sh", *peers), input=keys[number], capture_output=True,
                                text=True, check=False)
        if "/dev/net/tun" in result.stdout:
            raise unittest.SkipTest(f"no tunnels here: {result.stdout}")
        if result.returncode != 0:
            raise AssertionError(result.stdout + result.stderr)
    box.tunnels = [f"w{box.name[1:7]}{number}" for number in range(len(box.hosts))]
    names = pathlib.Path(f"/run/cuspan-box/{box.name}/hosts")
    box.plain_names = names.read_text()
    box.use_names = lambda subnet: names.write_text(box.plain_names.replace("10.77.0.", subnet))
    box.use_names("10.78.0.")


class Secure(BoxTest):
    def sniff(self):
        """Starts to record the packets on the eth0 of all hosts."""
        sniffers = [self.start(self.box.on(host, sys.executable, "-c", SNIFFER)) for host in self.box.hosts]
        for sniffer in sniffers:
            self.assertEqual(self.answer(sniffer), "listens")
        return sniffers

    def seen(self, sniffers):
        """(unencrypted packets, number of encrypted packets) of each host."""
        found = []
        for sniffer in sniffers:
            status, out, _ = self.ends(sniffer)
            self.assertEqual(status, 0)
            *plain, last = out.splitlines()
            found.append((plain, int(last.split()[1])))
        return found

    def use_both(self, relay, *options, **more):
        """Runs a program on GPUs of two other hosts, with copies between them."""
        run = self.start_on("n0", "--hosts", "n1,n2", "--relay", relay, *options, "--", app("peer_copies", "shared"), **more)
        status, out, err = self.ends(run)
        self.assertEqual((status, "PASS" in out), (0, True), out + err)

    def check(self, relay):
        sniffers = self.sniff()
        self.use_both(relay, "--secure", ",".join(self.box.tunnels))
        for plain, encrypted in self.seen(sniffers):
            self.assertEqual(plain, [])
            self.assertGreater(encrypted, 100)
        self.assert_nothing_left()

    def test_all_is_encrypted(self):
        for relay in RELAYS:
            with self.subTest(relay):
                self.check(relay)

    def test_without_it_the_sniffer_sees_what_is_plain(self):
        self.box.use_names("10.77.0.")
        self.addCleanup(self.box.use_names, "10.78.0.")
        sniffers = self.sniff()
        self.use_both("mpi")
        for plain, _ in self.seen(sniffers):
            self.assertTrue(plain)

    def test_hosts_that_are_reached_otherwise_are_refused(self):
        self.box.use_names("10.77.0.")
        self.addCleanup(self.box.use_names, "10.78.0.")
        for secure, why in ((",".join(self.box.tunnels), "not by one of these interfaces"),
                            ("auto", "not by an interface of WireGuard")):
            result = self.run_on("n0", "--hosts", "n1,n2", "--secure", secure, "--", "true", status=OWN_FAILURE)
            self.assertIn(f"cuspan: --secure {secure}: host n1 is reached by eth0, {why}", result.stderr)
            doctor = self.run_command(self.box.on("n0", *self.cuspan("doctor", "--hosts", "n1,n2", "--secure", secure)),
                                      self.environment(), 1)
            self.assertIn(f"error  n0: --secure {secure}: host n1 is reached by eth0, {why}", doctor.stdout)
            self.assertIn("[not-secure]", doctor.stdout)
        self.assert_nothing_left()

    def test_a_site_can_demand_it(self):
        self.box.use_names("10.77.0.")
        self.addCleanup(self.box.use_names, "10.78.0.")
        result = self.run_on("n0", "--hosts", "n1", "--", "true", status=OWN_FAILURE, CUSPAN_SECURE="auto")
        self.assertIn("host n1 is reached by eth0", result.stderr)

    def test_an_agent_that_reaches_others_otherwise_is_refused(self):
        for address in ("10.78.0.1", "10.78.0.3"):  # The head agent's host, and another one.
            with self.subTest(address):
                # Routes n1's packets to it around the tunnel.
                subprocess.run(self.box.on("n1", "ip", "route", "add", f"{address}/32", "dev", "eth0"), check=True)
                for relay in RELAYS:
                    result = self.run_on("n0", "--hosts", "n1,n2", "--relay", relay, "--secure", ",".join(self.box.tunnels),
                                         "--", "true", status=OWN_FAILURE)
                    self.assertIn(f"host {address} is reached by eth0", result.stderr)
                    self.assertIn("n1", result.stderr)
                subprocess.run(self.box.on("n1", "ip", "route", "del", f"{address}/32", "dev", "eth0"), check=True)

    def test_hosts_may_be_named_by_addresses(self):
        # The names resolve to addresses outside of the tunnels.
        self.box.use_names("10.77.0.")
        self.addCleanup(self.box.use_names, "10.78.0.")
        shell = self.folder / "shell"
        shell.write_text("#!/bin/sh\n"
                         "while case $1 in -*) true;; *) false;; esac; do shift; done\n"
                         "case $1 in 10.78.0.2) host=n1;; 10.78.0.3) host=n2;; *) host=$1;; esac\n"
                         f"shift\nexec {SCRIPT} --name {self.box.name} remote-shell $host \"$@\"\n")
        shell.chmod(0o755)
        for relay in RELAYS:
            with self.subTest(relay):
                sniffers = self.sniff()
                run = self.start_on("n0", "--hosts", "10.78.0.2,10.78.0.3", "--relay", relay, "--remote-shell", str(shell),
                                    "--secure", ",".join(self.box.tunnels), "--", app("collectives", "shared"))
                status, out, err = self.ends(run)
                self.assertEqual((status, "PASS" in out), (0, True), out + err)
                for plain, encrypted in self.seen(sniffers):
                    self.assertEqual(plain, [])
                    self.assertGreater(encrypted, 100)

    def test_an_option_comes_before_the_variable(self):
        self.box.use_names("10.77.0.")
        self.addCleanup(self.box.use_names, "10.78.0.")
        result = self.run_on("n0", "--hosts", "n1", "--secure", "off", "--", app("vector_add", "shared"), CUSPAN_SECURE="auto")
        self.assertIn("PASS", result.stdout)

    @of_open_mpi
    def test_what_would_go_past_it_is_refused(self):
        secure = ",".join(self.box.tunnels)
        for more, arguments, why in (({"OMPI_MCA_pml": "ucx"}, [], "unset OMPI_MCA_pml=ucx"),
                                     ({}, ["--mpirun-args", "--mca btl self,tcp"], "remove --mpirun-args"),
                                     ({}, ["-np", "2", "--app-mpirun", "mpirun --host n1:2"], "start all ranks on this host")):
            result = self.run_on("n0", "--hosts", "n1", "--secure", secure, *arguments, "--", "true", status=OWN_FAILURE, **more)
            self.assertIn(why, result.stderr)

    def test_ranks_on_other_hosts_are_refused(self):
        result = self.run_on("n0", "--hosts", "n1", "--secure", ",".join(self.box.tunnels), "-np", "2", "--app-hosts",
                             "n0:1,n2:1", "--", "true", status=OWN_FAILURE)
        self.assertIn("--secure: mpirun or srun may send the secret of the run", result.stderr)

    def test_wrong_words_are_named(self):
        for wrong in ("", "a/b", "wg0,"):
            result = self.run_command(self.cuspan("run", "--secure", wrong, "--", "true"), status=OWN_FAILURE)
            self.assertIn("--secure must be off, auto", result.stderr)

    def test_on_one_host_it_changes_nothing(self):
        result = self.run_on("n1", "--secure", "auto", "--", app("vector_add", "shared"))
        self.assertIn("PASS", result.stdout)

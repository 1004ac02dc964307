// What this host lets a process do with folders, memory and code: tried out.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/facts.h"

namespace cuspan::doctor {

// Writes a file without a name, which goes with this function.
FolderFacts TryFolder(const std::string& path);
// Makes and removes a lock, as agents do.
FolderFacts TryLockFolder(const std::string& path);
// Whether a folder can be made, or written to, that need not be there yet. Makes nothing.
FolderFacts TryCacheFolder(const std::string& path);

// Whether code can be written over and then executed, as the client does with functions of
// libcudart (interpose/load/patch.h) and the software GPU with what it compiles: tried by a child.
// Empty when it can; else what the system said.
std::string TryCode();
// Starts as many threads as a process of a run has, and ends them. Why that fails; empty: it works.
std::string TryThreads();

LimitFacts FindLimits();

// Those of NVIDIA's device files that are there, and not for this user.
std::vector<std::string> DeniedDevices();
// Whether the host has a network card that UCX and MPI use by RDMA.
bool HasRdma();

}  // namespace cuspan::doctor

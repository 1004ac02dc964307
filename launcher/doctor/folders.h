// Tests of this host's folders, memory and code protection.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/facts.h"

namespace cuspan::doctor {

// Writes a file without a name, removed at the end of this function.
FolderFacts TryFolder(const std::string& path);
// Creates and removes a lock, like agents.
FolderFacts TryLockFolder(const std::string& path);
// Checks that a folder can be written to, or created if missing. Creates nothing.
FolderFacts TryCacheFolder(const std::string& path);

// Tests in a child whether code can be overwritten and then executed. The client does this with
// functions of libcudart (interpose/load/patch.h), the software GPU with its compiled code. Returns
// the system's error; empty on success.
std::string TryCode();
// Starts as many threads as a process of a run has, and ends them. Returns the error; empty on
// success.
std::string TryThreads();

LimitFacts FindLimits();

// NVIDIA's device files not open to this user.
std::vector<std::string> DeniedDevices();
// True if the host has a network card for RDMA by UCX and MPI.
bool HasRdma();

}  // namespace cuspan::doctor

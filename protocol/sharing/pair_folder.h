// Private folder of an MPS server, shared by one user's runs in pairs on a GPU. It is beside the
// GPU's table (share_table.h):
//
//   FOLDER/cuspan-pair-NUMBER-USER/   NUMBER: made from the table's name, because the paths of its
//                                     Unix sockets must be short
//     lock    bytes of it are locked: by the keeper of the server, and by its clients
//     pipe/   CUDA_MPS_PIPE_DIRECTORY
//     log/    CUDA_MPS_LOG_DIRECTORY
//
// Locks (fcntl, F_OFD_SETLK) belong to an open file description. The kernel releases them when the
// last process having it ends, for any reason.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

// Threads: one, except for AwaitAlone. Each object has its own open file description.
class PairFolder {
 public:
  // Bytes of the lock file.
  enum class Part : std::int64_t {
    // Exclusive: held by the server's keeper during its lifetime, and by a process starting one.
    kKeeper,
    kReady,  // Exclusive: held by the keeper while the server accepts clients.
    // Shared: held by each client process. Exclusive: held by a process ending the server.
    kClients,
  };

  // Path of the folder for a table's GPU. kInvalid if it is too long for the server's sockets.
  static Result<std::string> PathFor(const std::string& table);
  // Creates the folder if it does not exist. kNotFound: it was removed meanwhile; try again.
  // kRefused: the path is not a private folder of this user.
  static Result<PairFolder> Open(const std::string& path);
  // Takes over a descriptor of the lock file, together with its locks.
  static PairFolder Adopt(const std::string& path, UniqueFd lock);
  // The same folder with another open file description.
  Result<PairFolder> OpenAgain() const;

  const std::string& path() const { return path_; }
  std::string pipe() const { return path_ + "/pipe"; }
  std::string log() const { return path_ + "/log"; }
  int lock_fd() const { return lock_.get(); }
  // True if the folder still exists.
  bool Named() const;

  // Returns false if another open file description has a conflicting lock.
  bool LockAlone(Part part) { return SetLock(part, true); }
  bool LockTogether(Part part) { return SetLock(part, false); }
  // Blocks until the lock is free.
  bool AwaitAlone(Part part) const;
  void Unlock(Part part);
  // True if another open file description has a lock on this byte.
  bool OthersHave(Part part) const;

  // Kills every process started with this pipe folder in its environment: the daemon, its server,
  // and their clients. Waits for at most `patience` until they have ended.
  void KillServers(std::chrono::milliseconds patience) const;
  // Removes the contents of the folder except the lock file.
  void Clear() const;
  // Removes the folder. The caller must hold the keeper's and the clients' locks exclusively.
  void Remove() const;
  // Removes this user's unused folders and kills their processes, for example after a keeper was
  // killed.
  static void RemoveUnused(const std::string& folder);

 private:
  PairFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  bool SetLock(Part part, bool alone);

  std::string path_;
  UniqueFd lock_;
};

}  // namespace cuspan

// The private folder of the MPS server by which runs of one user share a GPU in pairs. It lies
// beside the GPU's table (share_table.h):
//
//   FOLDER/cuspan-pair-NUMBER-USER/   NUMBER: made from the table's name, since Unix sockets lie in
//                                     it, whose names must be short
//     lock    bytes of it are locked: by the keeper of the server, and by its clients
//     pipe/   CUDA_MPS_PIPE_DIRECTORY
//     log/    CUDA_MPS_LOG_DIRECTORY
//
// Locks (fcntl, F_OFD_SETLK) belong to the open file that they were made by: the kernel takes them
// back with the last process that has it, however that ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

// One thread, but for AwaitAlone. Of one open file.
class PairFolder {
 public:
  // The bytes that are locked.
  enum class Part : std::int64_t {
    kKeeper,   // Alone: by the server's keeper, as long as it lives, and by who starts one.
    kReady,    // Alone: by the keeper, while the server takes clients.
    kClients,  // Together: by each client process. Alone: by who ends the server.
  };

  // Where the folder of a table's GPU is. kInvalid where the server's sockets could not be there.
  static Result<std::string> PathFor(const std::string& table);
  // Makes it if it is not there. kNotFound: it was removed meanwhile, which is to be tried again.
  // kRefused: something else lies there.
  static Result<PairFolder> Open(const std::string& path);
  // Of a descriptor of its lock file, whose locks are then this object's.
  static PairFolder Adopt(const std::string& path, UniqueFd lock);
  // The same folder by another open file.
  Result<PairFolder> OpenAgain() const;

  const std::string& path() const { return path_; }
  std::string pipe() const { return path_ + "/pipe"; }
  std::string log() const { return path_ + "/log"; }
  int lock_fd() const { return lock_.get(); }
  // Whether the folder is still there.
  bool Named() const;

  // False when another open file's lock is in the way.
  bool LockAlone(Part part) { return SetLock(part, true); }
  bool LockTogether(Part part) { return SetLock(part, false); }
  // Waits for it.
  bool AwaitAlone(Part part) const;
  void Unlock(Part part);
  // Whether another open file has a lock there.
  bool OthersHave(Part part) const;

  // Ends every process that was started with this pipe folder in its environment: the daemon, its
  // server, and what was to talk to them. Waits at most so long for their ends.
  void KillServers(std::chrono::milliseconds patience) const;
  // Removes what is in the folder but for the lock file.
  void Clear() const;
  // Removes it. To be called by who has the keeper's part and the clients' alone.
  void Remove() const;
  // Removes this user's folders that no process uses, with what runs there, as when a keeper was
  // killed.
  static void RemoveUnused(const std::string& folder);

 private:
  PairFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  bool SetLock(Part part, bool alone);

  std::string path_;
  UniqueFd lock_;
};

}  // namespace cuspan

// Files registered with cuFile.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "common/file_bytes.h"
#include "common/mutex.h"
#include "interpose/client/files.h"
#include "interpose/cufile/results.h"

namespace cuspan::cufile {

// A registered file, opened for each context that uses it. Threads: any.
class Handle {
 public:
  // The program's descriptor, and the file that it meant.
  struct Identity {
    int fd = -1;
    dev_t device = 0;
    ino_t file = 0;
    bool operator==(const Identity&) const = default;
  };
  Handle(std::uint64_t number, FileBytes bytes, const Identity& identity)
      : number_(number), bytes_(std::move(bytes)), identity_(identity) {}

  std::uint64_t number() const { return number_; }
  // The program's file, for bytes in the program's memory.
  const FileBytes& bytes() const { return bytes_; }
  bool Allows(Opcode opcode) const {
    return opcode == kRead ? bytes_.access().reads : bytes_.access().writes;
  }
  const Identity& identity() const { return identity_; }
  // The file for memory of a device, opened at the first call. Null after a failure: *outcome.
  std::shared_ptr<const ProgramFile> On(Session& session,
                                        const std::shared_ptr<ContextConnection>& connection,
                                        Outcome* outcome);
  // Closes it for all devices. Operations under way are executed.
  void Close(Files& files);
  // Forgets the file of an ended context.
  void Forget(std::uint64_t connection);

 private:
  const std::uint64_t number_;
  const FileBytes bytes_;
  const Identity identity_;
  Mutex mutex_;
  bool closed_ CUSPAN_GUARDED_BY(mutex_) = false;
  // Opened files by ContextConnection::number().
  std::map<std::uint64_t, std::shared_ptr<const ProgramFile>> opened_ CUSPAN_GUARDED_BY(mutex_);
};

// Threads: any. A table of the session.
class Handles final : public ContextTable {
 public:
  // Registers a descriptor. The program may use and close it independently.
  CallResult Register(int fd, std::uint64_t* handle);
  // Null for unknown ones.
  std::shared_ptr<Handle> Find(std::uint64_t handle) const;
  // Removes it. Null for unknown ones.
  std::shared_ptr<Handle> Take(std::uint64_t handle);
  // Removes and closes all.
  void CloseAll(Files& files);

  void Forget(const ContextConnection& ended) override;

 private:
  mutable Mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Handle>> handles_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::cufile

// The memory of other devices of this node, as this one uses it: mapped at the
// addresses that it has in its own device's window, so that copies and kernels
// here take a pointer of theirs as it is.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/mutex.h"
#include "protocol/channel/socket.h"
#include "proxy/gpu/device.h"
#include "proxy/gpu/mappings.h"

namespace cuspan::proxy {

// Threads: one at a time, the worker; Contains: any. What is still mapped at the end is given
// back.
class PeerMemory {
 public:
  // Without a secret there are no other proxies.
  PeerMemory(const Driver& driver, const Device& device, std::optional<Key128> secret)
      : driver_(driver), device_(device), secret_(secret) {}
  PeerMemory(const PeerMemory&) = delete;
  ~PeerMemory();

  // Reserves the window of the device `ordinal`, whose proxy answers at `exchange`, and tries
  // whether its memory can be had. CUDA_ERROR_PEER_ACCESS_UNSUPPORTED when it can not.
  CUresult Open(const std::string& exchange, std::uint32_t ordinal, const AddressWindow& window);
  // One piece of memory that its proxy has mapped there; the peer is named by its window's base.
  CUresult Map(std::uint64_t base, std::uint64_t address, std::uint64_t bytes);
  // Undoes exactly one Map.
  CUresult Unmap(std::uint64_t base, std::uint64_t address, std::uint64_t bytes);
  // Undoes Open and all that followed.
  CUresult Close(std::uint64_t base);

  // One piece that another session's proxy of this node has mapped at `theirs`, at `at`, a free
  // part of this device's own window. CUDA_ERROR_MAP_FAILED when it can not be had.
  CUresult Borrow(const std::string& exchange, std::uint64_t theirs, std::uint64_t bytes,
                  std::uint64_t at);
  // Undoes exactly one Borrow.
  CUresult Return(std::uint64_t at, std::uint64_t bytes);

  // The file of an allocation that another proxy of this node has under the number `theirs`.
  // CUDA_ERROR_MAP_FAILED when it can not be had.
  CUresult Fetch(const std::string& exchange, std::uint64_t theirs, UniqueFd* file) const;

  // Whether all of [address, address + bytes) lies in one piece that is mapped.
  bool Contains(std::uint64_t address, std::uint64_t bytes) const;

 private:
  struct Peer {
    AddressWindow window;
    ControlSocket socket;
  };
  struct Piece {
    std::uint64_t bytes;
    CUmemGenericAllocationHandle memory;
  };
  // To the proxy that answers there; CUDA_ERROR_MAP_FAILED when none does.
  CUresult Connect(const std::string& exchange, std::optional<ControlSocket>* socket) const;
  // Gets memory from the peer and maps it at `address`.
  CUresult Import(ControlSocket& peer, const PeerExport& wanted, std::uint64_t address,
                  std::uint64_t bytes, Piece* piece);
  void Release(std::uint64_t address, const Piece& piece);
  Peer* Find(std::uint64_t base);

  const Driver& driver_;
  const Device& device_;
  const std::optional<Key128> secret_;
  std::map<std::uint64_t, Peer> peers_;  // By the window's base.
  mutable Mutex mutex_;
  std::map<std::uint64_t, Piece> pieces_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::proxy

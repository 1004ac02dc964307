// Memory of other devices of this node, used by this device. It is mapped at its address in the
// window of its own device. Copies and kernels can therefore use pointers of other devices
// unchanged.
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

// The destructor unmaps all remaining memory. Threads: one at a time, the worker; Contains: any.
class PeerMemory {
 public:
  // Without `secret`, there are no other proxies.
  PeerMemory(const Driver& driver, const Device& device, std::optional<Key128> secret)
      : driver_(driver), device_(device), secret_(secret) {}
  PeerMemory(const PeerMemory&) = delete;
  ~PeerMemory();

  // Reserves the window of the device `ordinal`, and tests access to its memory. `exchange` is the
  // address of its proxy. CUDA_ERROR_PEER_ACCESS_UNSUPPORTED without access.
  CUresult Open(const std::string& exchange, std::uint32_t ordinal, const AddressWindow& window);
  // Maps memory already mapped there by its proxy. `base` of the window identifies the peer.
  CUresult Map(std::uint64_t base, std::uint64_t address, std::uint64_t bytes);
  // Undoes exactly one Map.
  CUresult Unmap(std::uint64_t base, std::uint64_t address, std::uint64_t bytes);
  // Undoes Open and all later calls of Map.
  CUresult Close(std::uint64_t base);

  // Maps memory of another session's proxy on this node at `at`, a free part of this device's
  // window. `theirs` is its address there. CUDA_ERROR_MAP_FAILED without access.
  CUresult Borrow(const std::string& exchange, std::uint64_t theirs, std::uint64_t bytes,
                  std::uint64_t at);
  // Undoes exactly one Borrow.
  CUresult Return(std::uint64_t at, std::uint64_t bytes);

  // Gets the file of allocation number `theirs` of another proxy on this node.
  // CUDA_ERROR_MAP_FAILED without access.
  CUresult Fetch(const std::string& exchange, std::uint64_t theirs, UniqueFd* file) const;

  // True if [address, address + bytes) is inside one mapped piece.
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
  // Connects to the proxy at `exchange`. CUDA_ERROR_MAP_FAILED if it does not answer.
  CUresult Connect(const std::string& exchange, std::optional<ControlSocket>* socket) const;
  // Gets memory from the peer and maps it at `address`.
  CUresult Import(ControlSocket& peer, const PeerExport& wanted, std::uint64_t address,
                  std::uint64_t bytes, Piece* piece);
  void Release(std::uint64_t address, const Piece& piece);
  Peer* Find(std::uint64_t base);

  const Driver& driver_;
  const Device& device_;
  const std::optional<Key128> secret_;
  std::map<std::uint64_t, Peer> peers_;  // Key: base of the window.
  mutable Mutex mutex_;
  std::map<std::uint64_t, Piece> pieces_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::proxy

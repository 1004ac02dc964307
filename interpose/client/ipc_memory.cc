#include "interpose/client/ipc_memory.h"

#include <cstdio>
#include <cstdlib>

namespace cuspan {
namespace {

constexpr std::uint64_t kMagic = 0x6d65'6d6f'7279'3031;
// Names of proxies are this prefix and 16 bytes as hexadecimal digits (proxy/bulk/exchange.cc).
constexpr const char* kProxyName = "cuspan-proxy-";

bool ParseProxy(const std::string& name, std::array<std::uint8_t, 16>* bytes) {
  const std::string prefix = kProxyName;
  if (name.size() != prefix.size() + 2 * bytes->size() || !name.starts_with(prefix)) return false;
  for (std::size_t i = 0; i < bytes->size(); ++i) {
    const std::string digits = name.substr(prefix.size() + 2 * i, 2);
    (*bytes)[i] = static_cast<std::uint8_t>(std::strtoul(digits.c_str(), nullptr, 16));
  }
  return true;
}

std::string ProxyName(const std::array<std::uint8_t, 16>& bytes) {
  std::string name = kProxyName;
  for (const std::uint8_t byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    name += digits;
  }
  return name;
}

}  // namespace

CUresult IpcMemory::Describe(ContextConnection& owner, const BlockAllocator::Range& block,
                             IpcMemoryHandle* handle) {
  const auto piece = owner.memory().OwnPiece(block.base);
  if (!piece) return CUDA_ERROR_INVALID_VALUE;  // A variable, or imported memory.
  *handle = {};
  if (!ParseProxy(owner.place().exchange, &handle->proxy)) return CUDA_ERROR_NOT_SUPPORTED;
  handle->magic = kMagic;
  handle->piece = piece->base;
  handle->piece_bytes = piece->bytes;
  handle->offset = block.base - piece->base;
  handle->bytes = block.bytes;
  // Copies to the memory may still be in flight.
  SetInUse();
  return devices_.Synchronize(owner.context());
}

CUresult IpcMemory::Open(ContextConnection& user, const IpcMemoryHandle& handle,
                         std::uint64_t* address) {
  if (handle.magic != kMagic || handle.offset >= handle.piece_bytes || handle.bytes == 0 ||
      handle.bytes > handle.piece_bytes - handle.offset)
    return CUDA_ERROR_INVALID_VALUE;
  const std::string proxy = ProxyName(handle.proxy);
  for (const auto& own : devices_.ContextConnections())
    if (own->place().exchange == proxy) return CUDA_ERROR_INVALID_CONTEXT;
  const MutexLock lock(mutex_);
  const auto [found, is_new] = imports_.try_emplace({proxy, handle.piece, user.number()});
  Import& import = found->second;
  if (is_new) {
    const CUresult result =
        user.memory().Import(proxy, {handle.piece, handle.piece_bytes}, &import.base);
    if (result != CUDA_SUCCESS) {
      imports_.erase(found);
      return result;
    }
  }
  SetInUse();
  *address = import.base + handle.offset;
  ++import.opened[*address];
  user.memory().AddImportedBlock({*address, handle.bytes});
  return CUDA_SUCCESS;
}

CUresult IpcMemory::Close(std::uint64_t address) {
  const MutexLock lock(mutex_);
  for (auto entry = imports_.begin(); entry != imports_.end(); ++entry) {
    Import& import = entry->second;
    const auto block = import.opened.find(address);
    const auto connection = devices_.ConnectionNumbered(std::get<2>(entry->first));
    if (block == import.opened.end() || connection == nullptr) continue;
    const bool last = block->second == 1 && import.opened.size() == 1;
    if (last) {
      const CUresult result = connection->memory().EndImport(import.base);
      if (result == CUDA_SUCCESS) imports_.erase(entry);
      return result;
    }
    if (--block->second == 0) {
      import.opened.erase(block);
      connection->memory().RemoveImportedBlock(address);
    }
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

void IpcMemory::Forget(const ContextConnection& ended) {
  const MutexLock lock(mutex_);
  std::erase_if(imports_,
                [&](const auto& entry) { return std::get<2>(entry.first) == ended.number(); });
}

}  // namespace cuspan

// Stands in for cuspan-proxy in the launcher's tests: it has the protocol with agents and clients,
// but no device. Reads FAKE_GPUS (number of devices of the driver "cuda"; by default 0, a driver
// not working), FAKE_SOFT (the same for "soft"; by default 1) and FAKE_RESULT (error of every
// start).
//
// Replies: MemoryInfo with total = its window's base; DeviceSynchronize with the number of chunks
// sent; LimitGet with the number of posted frames received. A Memset with value 0xdead crashes it.
// CopyToDevice receives the chunks; CopyFromDevice sends the stored bytes back, in chunks.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "protocol/channel/channel.h"
#include "protocol/channel/socket.h"
#include "protocol/sharing/share_slot.h"

namespace cuspan {
namespace {

constexpr std::chrono::milliseconds kLimit{60'000};

int CountOf(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

InventoryAnswer Inventory(const std::string& driver) {
  InventoryAnswer answer;
  const bool soft = driver == "soft";
  const int count = soft ? CountOf("FAKE_SOFT", 1) : CountOf("FAKE_GPUS", 0);
  if (count == 0)
    answer.problem = soft ? "the software GPU's library not found"
                          : "no usable GPU: libcuda.so.1 not found; use --device soft";
  for (int i = 0; i < count; ++i) {
    DeviceDescription device;
    device.ordinal = static_cast<std::uint32_t>(i);
    device.name = soft ? "Fake Soft" : "Fake GPU";
    device.uuid[0] = static_cast<std::uint8_t>(i + 1);
    device.memory_bytes = std::uint64_t{4} << 30;
    device.driver_version = 12080;
    device.software = soft;
    device.virtual_memory = true;
    device.attributes.resize(80);
    device.attributes[75] = 9;
    answer.devices.push_back(device);
  }
  return answer;
}

class Server {
 public:
  Server(Channel& channel, const AddressWindow& window) : channel_(channel), window_(window) {}

  void Serve() {
    while (!channel_.closed()) {
      channel_.own_bell().Wait(
          [this] {
            return channel_.HasFrame() || channel_.closed() || (!to_send_.empty() && missing_ == 0);
          },
          std::chrono::seconds(1), stages_);
      for (;;) {
        Result<std::optional<Frame>> frame = channel_.Peek();
        if (!frame.ok()) std::abort();
        if (!frame->has_value()) break;
        Take(**frame);
        channel_.Pop();
      }
      SendChunks();
    }
  }

 private:
  void Take(const Frame& frame) {
    const std::uint32_t request = frame.header.request;
    switch (frame.op()) {
      case Op::kMemoryInfo:
        channel_.Reply<MemoryInfo>(request, {0, window_.bytes, window_.base});
        break;
      case Op::kDeviceSynchronize:
        channel_.Reply<DeviceSynchronize>(request, {0, chunks_sent_});
        break;
      case Op::kLimitGet:
        channel_.Reply<LimitGet>(request, {0, posted_});
        break;
      case Op::kMemset:
        if (ParseMessage<Memset>(frame)->value == 0xdead) ::raise(SIGKILL);
        ++posted_;
        break;
      case Op::kCopyToDevice: {
        const Result<CopyToDevice> copy = ParseMessage<CopyToDevice>(frame);
        memory_.assign(copy->bytes, std::byte{0});
        missing_ = copy->bytes;
        channel_.Post(TransferClearToSend{copy->transfer});
        break;
      }
      case Op::kCopyFromDevice: {
        const Result<CopyFromDevice> copy = ParseMessage<CopyFromDevice>(frame);
        const std::uint64_t piece = channel_.layout().staging_bytes;
        for (std::uint64_t offset = 0; offset < copy->bytes; offset += piece)
          to_send_.push_back({copy->transfer, offset,
                              static_cast<std::uint32_t>(std::min(piece, copy->bytes - offset)),
                              0});
        break;
      }
      case Op::kChunk: {
        const Result<Chunk> chunk = ParseMessage<Chunk>(frame);
        std::memcpy(memory_.data() + chunk->offset, channel_.IncomingSlot(chunk->slot),
                    chunk->bytes);
        channel_.ReleaseSlot(chunk->slot);
        missing_ -= chunk->bytes;
        break;
      }
      default:
        ++posted_;
    }
  }

  void SendChunks() {
    // A copy from the device follows the one to it. Chunks of the latter may arrive after the op.
    while (!to_send_.empty() && missing_ == 0) {
      const std::optional<std::uint32_t> slot = channel_.TryAcquireSlot();
      if (!slot) return;
      Chunk chunk = to_send_.front();
      to_send_.erase(to_send_.begin());
      chunk.slot = *slot;
      std::memcpy(channel_.OutgoingSlot(*slot), memory_.data() + chunk.offset, chunk.bytes);
      channel_.Post(chunk);
      ++chunks_sent_;
    }
  }

  Channel& channel_;
  const AddressWindow window_;
  const WaitStages stages_ = WaitStages::ForThisMachine();
  std::vector<std::byte> memory_;
  std::uint64_t missing_ = 0;  // Missing bytes of the copy to the device.
  std::vector<Chunk> to_send_;
  std::uint64_t posted_ = 0;
  std::uint64_t chunks_sent_ = 0;
};

int Run(int fd) {
  ControlSocket socket{UniqueFd(fd)};
  Result<ControlSocket::Message> first = socket.Receive(kLimit, "request");
  if (!first.ok()) return 1;
  if (first->frame.op() == Op::kInventoryRequest) {
    const Result<InventoryRequest> request = ParseMessage<InventoryRequest>(first->frame);
    return request.ok() && socket.Send(Inventory(request->driver)).ok() ? 0 : 1;
  }
  const Result<ProxyStart> start = ParseMessage<ProxyStart>(first->frame);
  if (!start.ok()) return 1;
  UniqueFd channel_fd = socket.ExtractFd();
  Result<Bell> own = Bell::Open(socket.ExtractFd());
  Result<Bell> peer = Bell::Open(socket.ExtractFd());
  if (!own.ok() || !peer.ok()) return 1;
  Result<std::unique_ptr<Channel>> channel =
      Channel::Attach(std::move(channel_fd), ChannelSide::kProxy, &*own, std::move(*peer));
  if (!channel.ok()) return 1;
  if (start->shared_file) UniqueFd(socket.ExtractFd());
  if (start->trace) UniqueFd(socket.ExtractFd());
  // Slot for a proxy of a run sharing its GPU.
  std::unique_ptr<ShareSlot> seat;
  if (start->share) {
    Result<std::unique_ptr<ShareSlot>> taken =
        ShareSlot::Take(socket.ExtractFd(), start->share_location);
    if (!taken.ok()) return 1;
    seat = std::move(*taken);
  }
  if (const char* result = std::getenv("FAKE_RESULT"))
    return socket.Send(ProxyReady{std::atoi(result), "as FAKE_RESULT says", {}, false}).ok() ? 0
                                                                                             : 1;
  if (!socket.Send(ProxyReady{0, "", start->window, false}).ok()) return 1;
  Server(**channel, start->window).Serve();
  return 0;
}

}  // namespace
}  // namespace cuspan

int main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--socket") != 0) return 2;
  return cuspan::Run(std::atoi(argv[2]));
}

// A client's end of a channel and a proxy's session in one process.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/channel/channel.h"
#include "protocol/sharing/share_slot.h"
#include "proxy/server.h"

namespace cuspan::proxy {

// The thread sanitizer allows no mappings at the usual address.
#if defined(__SANITIZE_THREAD__)
inline constexpr std::uint64_t kWindow = 0x10'0000'0000;
#else
inline constexpr std::uint64_t kWindow = 0x1800'0000'0000;
#endif
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 30;

// All messages received by a client so far.
struct Received {
  std::map<std::uint32_t, std::vector<std::byte>> replies;  // Keyed by request.
  std::vector<std::uint64_t> wanted;                        // Transfers clear to send.
  std::vector<PostedFailure> failures;
  std::vector<TransferFailed> failed_transfers;
  std::vector<EventReached> reached;
  std::vector<int> faults;
  std::vector<Chunk> chunks;
  std::vector<FileWanted> files;
  std::string wrong;  // A frame no proxy should send.
};

// A client keeping all received messages. Its receiving thread copies chunks to the destination set
// by ReceiveTo and returns their slots.
class TestClient {
 public:
  explicit TestClient(Channel& channel);
  ~TestClient();

  template <typename T>
  std::uint64_t Post(const T& op, std::uint32_t thread = 0) {
    return channel_.Post(op, thread);
  }
  // Posts a call. Returns the request for AwaitReply.
  template <typename T>
  std::uint32_t Ask(const T& op) {
    const std::uint32_t request = ++last_request_;
    channel_.Post(op, request);
    return request;
  }
  // Returns the reply, or after a time-out a default one with result -1.
  template <typename T>
  typename T::Reply AwaitReply(std::uint32_t request) {
    typename T::Reply reply;
    reply.result = -1;
    Await([&](const Received& received) {
      const auto found = received.replies.find(request);
      return found != received.replies.end() && DecodeFrom(Bytes(found->second), reply);
    });
    return reply;
  }
  template <typename T>
  typename T::Reply Call(const T& op) {
    return AwaitReply<T>(Ask(op));
  }
  // Waits until `done` returns true; false after a time-out.
  bool Await(const std::function<bool(const Received&)>& done);
  Received Now();

  // Sends bytes as chunks through free slots. Call once the transfer is clear to send.
  void SendChunks(std::uint64_t transfer, const std::vector<std::byte>& bytes);
  bool AwaitClearToSend(std::uint64_t transfer);
  // Sets the destination of a transfer's chunks.
  void ReceiveTo(std::uint64_t transfer, std::byte* destination);
  // If true, chunks are not received and their slots not returned.
  void HoldChunks(bool hold);

  Channel& channel() { return channel_; }

 private:
  void Receive();
  void Handle(const Frame& frame);

  Channel& channel_;
  std::uint32_t last_request_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  Received received_;
  std::map<std::uint64_t, std::byte*> destinations_;
  bool hold_chunks_ = false;
  bool ending_ = false;
  std::thread thread_;
};

// Both ends. The session runs from construction to End.
class Loopback {
 public:
  // If `seat` is not null, the device is shared with other runs.
  explicit Loopback(const Driver& driver, ChannelLayout layout = SmallLayout(),
                    std::unique_ptr<ShareSlot> seat = nullptr, SubmitterThreads submitters = {});

  // The secret of the session's exchange.
  static constexpr Key128 kSecret{7};
  ~Loopback();

  // Little staging memory, so small copies take many chunks and run out of slots.
  static ChannelLayout SmallLayout();

  TestClient& client() { return *client_; }
  // Closes the channel like a correct client (unless the session has ended). Returns the session's
  // result.
  Status End();
  // Waits until the session ends by itself.
  Status AwaitEnd();
  bool ended();

  // Address of the session's exchange.
  const std::string& exchange() const { return exchange_; }

  // Maps memory and returns its address.
  std::uint64_t Map(std::uint64_t bytes = 1 << 20);
  // Loads a module from `image` and returns its handle.
  std::uint64_t LoadModule(const std::vector<std::byte>& image);
  std::uint64_t FindKernel(std::uint64_t module, const std::string& name);
  std::uint64_t NewStream(std::uint32_t flags = 0);
  std::uint64_t NewHandle() { return ++last_handle_; }
  // Gives the session a channel to another proxy. Returns the other proxy's end, ringing `bell`.
  std::unique_ptr<Channel> Join(std::uint32_t join, Bell* bell);
  // The same, without asking the session to confirm the channel.
  std::unique_ptr<Channel> Give(std::uint32_t join, Bell* bell);

 private:
  std::optional<Bell> client_bell_;
  std::optional<Bell> proxy_bell_;
  std::unique_ptr<Channel> client_channel_;
  std::unique_ptr<Channel> proxy_channel_;
  std::unique_ptr<TestClient> client_;
  JoinInbox joins_;
  std::string exchange_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Status> end_;
  std::thread thread_;
  std::uint64_t last_handle_ = 100;
  std::uint64_t next_address_ = kWindow;
};

// Text accepted as PTX by the module checks.
std::vector<std::byte> AnyImage();
std::vector<std::byte> Pattern(std::size_t bytes, std::uint32_t seed);

}  // namespace cuspan::proxy

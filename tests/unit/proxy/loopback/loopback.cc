#include "tests/unit/proxy/loopback/loopback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace cuspan::proxy {
namespace {

// Limit of waits ending at once unless something is broken.
constexpr std::chrono::seconds kServerPatience{30};

template <typename T>
T Must(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  if (!result.ok()) std::abort();
  return std::move(*result);
}

}  // namespace

TestClient::TestClient(Channel& channel) : channel_(channel), thread_([this] { Receive(); }) {}

TestClient::~TestClient() {
  {
    std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  channel_.own_bell().Ring();
  thread_.join();
}

bool TestClient::Await(const std::function<bool(const Received&)>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kServerPatience;
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool last = channel_.closed() || std::chrono::steady_clock::now() > deadline;
    if (changed_.wait_for(lock, std::chrono::milliseconds(300), [&] { return done(received_); }))
      return true;
    if (last) return false;  // A closed channel delivers nothing more.
  }
}

Received TestClient::Now() {
  std::scoped_lock lock(mutex_);
  return received_;
}

bool TestClient::AwaitClearToSend(std::uint64_t transfer) {
  return Await([&](const Received& received) {
    return std::count(received.wanted.begin(), received.wanted.end(), transfer) != 0;
  });
}

void TestClient::SendChunks(std::uint64_t transfer, const std::vector<std::byte>& bytes) {
  const std::size_t most = channel_.layout().staging_bytes;
  for (std::size_t offset = 0; offset < bytes.size(); offset += most) {
    const std::optional<std::uint32_t> slot = channel_.AcquireSlot();
    if (!slot) return;
    const auto part = static_cast<std::uint32_t>(std::min(most, bytes.size() - offset));
    std::memcpy(channel_.OutgoingSlot(*slot), bytes.data() + offset, part);
    Post(Chunk{transfer, offset, part, *slot});
  }
}

void TestClient::ReceiveTo(std::uint64_t transfer, std::byte* destination) {
  std::scoped_lock lock(mutex_);
  destinations_[transfer] = destination;
}

void TestClient::HoldChunks(bool hold) {
  {
    std::scoped_lock lock(mutex_);
    hold_chunks_ = hold;
  }
  changed_.notify_all();
}

void TestClient::Receive() {
  for (;;) {
    Result<std::optional<Frame>> frame = channel_.Peek();
    if (!frame.ok()) {
      std::scoped_lock lock(mutex_);
      received_.wrong = frame.status().message();
      return;
    }
    if (frame->has_value()) {
      Handle(**frame);
      channel_.Pop();
      continue;
    }
    const auto ending = [this] {
      std::scoped_lock lock(mutex_);
      return ending_;
    };
    if (ending()) return;
    channel_.own_bell().Wait([&] { return channel_.HasFrame() || ending(); },
                             std::chrono::milliseconds(100), WaitStages::ForThisMachine());
  }
}

void TestClient::Handle(const Frame& frame) {
  std::unique_lock lock(mutex_);
  const auto keep = [&]<typename T>(std::vector<T>& list) {
    const Result<T> message = ParseMessage<T>(frame);
    if (message.ok())
      list.push_back(*message);
    else
      received_.wrong = message.status().message();
  };
  if (frame.header.is_reply()) {
    const bool added =
        received_.replies
            .emplace(frame.header.request, std::vector(frame.payload.begin(), frame.payload.end()))
            .second;
    if (!added) received_.wrong = "a second reply";
  } else {
    switch (frame.op()) {
      case Op::kTransferClearToSend: {
        std::vector<TransferClearToSend> wanted;
        keep(wanted);
        for (const TransferClearToSend& one : wanted) received_.wanted.push_back(one.transfer);
        break;
      }
      case Op::kPostedFailure:
        keep(received_.failures);
        break;
      case Op::kTransferFailed:
        keep(received_.failed_transfers);
        break;
      case Op::kEventReached:
        keep(received_.reached);
        break;
      case Op::kFileWanted:
        keep(received_.files);
        break;
      case Op::kDeviceFault: {
        std::vector<DeviceFault> faults;
        keep(faults);
        for (const DeviceFault& fault : faults) received_.faults.push_back(fault.result);
        break;
      }
      case Op::kChunk: {
        changed_.notify_all();
        changed_.wait(lock, [&] { return !hold_chunks_ || ending_; });
        keep(received_.chunks);
        if (received_.chunks.empty()) break;
        const Chunk& chunk = received_.chunks.back();
        const std::byte* slot = channel_.IncomingSlot(chunk.slot);
        const auto destination = destinations_.find(chunk.transfer);
        if (slot == nullptr || destination == destinations_.end())
          received_.wrong = "a chunk that nobody asked for";
        else
          std::memcpy(destination->second + chunk.offset, slot, chunk.bytes);
        channel_.ReleaseSlot(chunk.slot);
        break;
      }
      case Op::kChunkInline: {
        changed_.notify_all();
        changed_.wait(lock, [&] { return !hold_chunks_ || ending_; });
        ChunkInline chunk;
        if (!DecodeFrom(frame.payload, chunk)) {
          received_.wrong = "a malformed inline chunk";
          break;
        }
        const auto destination = destinations_.find(chunk.transfer);
        if (chunk.number != received_.chunks.size() || destination == destinations_.end())
          received_.wrong = "an inline chunk that nobody asked for, or with a wrong number";
        else
          std::memcpy(destination->second + chunk.offset, chunk.data.data(), chunk.data.size());
        constexpr std::uint32_t kNoSlot = ~0U;
        received_.chunks.push_back(
            {chunk.transfer, chunk.offset, static_cast<std::uint32_t>(chunk.data.size()), kNoSlot});
        break;
      }
      case Op::kProxyAlive:
        break;  // Sent if frames are held back for long.
      default:
        received_.wrong = OpName(frame.op());
    }
  }
  changed_.notify_all();
}

ChannelLayout Loopback::SmallLayout() {
  ChannelLayout layout;
  layout.ring_slots = 4096;
  layout.staging_slots = 4;
  layout.staging_bytes = 4096;
  return layout;
}

Loopback::Loopback(const Driver& driver, ChannelLayout layout, std::unique_ptr<ShareSlot> seat,
                   SubmitterThreads submitters) {
  client_bell_.emplace(Must(Bell::Create()));
  proxy_bell_.emplace(Must(Bell::Create()));
  const auto other = [](const Bell& bell) { return Must(Bell::Open(UniqueFd(::dup(bell.fd())))); };
  UniqueFd memory = Must(Channel::Create(layout));
  client_channel_ = Must(Channel::Attach(UniqueFd(::dup(memory.get())), ChannelSide::kClient,
                                         &*client_bell_, other(*proxy_bell_)));
  proxy_channel_ = Must(
      Channel::Attach(std::move(memory), ChannelSide::kProxy, &*proxy_bell_, other(*client_bell_)));
  client_ = std::make_unique<TestClient>(*client_channel_);
  ExchangeSocket exchange = Must(ExchangeSocket::Open(kSecret));
  exchange_ = exchange.address;
  thread_ = std::thread([this, &driver, seat = std::move(seat), submitters,
                         exchange = std::move(exchange)]() mutable {
    Status status;
    {
      Result<Device> device = Device::Open(driver, 0, {kWindow, kWindowBytes, kWindowBytes});
      if (device.ok() && device->window().base == kWindow) {
        const ReceivingThread::Scope role(receiving_thread);
        DeviceSession session(driver, *device, *proxy_channel_, std::move(exchange), &joins_,
                              submitters);
        if (seat != nullptr) session.sharing().Begin(std::move(seat));
        status = Serve(session);
      } else {
        status = device.ok() ? Status::Internal("another window") : device.status();
      }
    }
    std::scoped_lock lock(mutex_);
    end_ = status;
    changed_.notify_all();
  });
}

Loopback::~Loopback() {
  static_cast<void>(End());
  client_.reset();
}

Status Loopback::End() {
  client_channel_->Close(false);
  return AwaitEnd();
}

Status Loopback::AwaitEnd() {
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kServerPatience, [this] { return end_.has_value(); })) {
      ADD_FAILURE() << "the session does not end";
      std::abort();
    }
  }
  if (thread_.joinable()) thread_.join();
  return *end_;
}

bool Loopback::ended() {
  std::scoped_lock lock(mutex_);
  return end_.has_value();
}

std::uint64_t Loopback::Map(std::uint64_t bytes) {
  const std::uint64_t address = next_address_;
  next_address_ += bytes;
  EXPECT_EQ(client_->Call(MemoryMap{address, bytes}).result, CUDA_SUCCESS);
  return address;
}

std::uint64_t Loopback::LoadModule(const std::vector<std::byte>& image) {
  const std::uint64_t module = NewHandle();
  for (std::size_t offset = 0; offset < image.size(); offset += kMaxInlineBytes)
    client_->Post(ModuleImage{
        module, image.size(), offset,
        Bytes(image).subspan(offset, std::min(kMaxInlineBytes, image.size() - offset))});
  EXPECT_EQ(client_->Call(ModuleLoad{module}).result, CUDA_SUCCESS);
  return module;
}

std::uint64_t Loopback::FindKernel(std::uint64_t module, const std::string& name) {
  const std::uint64_t kernel = NewHandle();
  EXPECT_EQ(client_->Call(KernelFind{module, kernel, name}).result, CUDA_SUCCESS) << name;
  return kernel;
}

std::uint64_t Loopback::NewStream(std::uint32_t flags) {
  const std::uint64_t stream = NewHandle();
  client_->Post(StreamCreate{stream, flags, 0});
  return stream;
}

std::unique_ptr<Channel> Loopback::Join(std::uint32_t join, Bell* bell) {
  std::unique_ptr<Channel> peer = Give(join, bell);
  EXPECT_EQ(client_->Call(PeerJoin{join}).result, CUDA_SUCCESS);
  return peer;
}

std::unique_ptr<Channel> Loopback::Give(std::uint32_t join, Bell* bell) {
  const auto other = [](const Bell& own) { return Must(Bell::Open(UniqueFd(::dup(own.fd())))); };
  UniqueFd memory = Must(Channel::Create(SmallLayout()));
  joins_.Put(join, {Must(Channel::Attach(UniqueFd(::dup(memory.get())), ChannelSide::kProxy,
                                         &*proxy_bell_, other(*bell))),
                    ""});
  return Must(Channel::Attach(std::move(memory), ChannelSide::kClient, bell, other(*proxy_bell_)));
}

std::vector<std::byte> AnyImage() {
  const std::string_view text = ".version 8.0\n.target sm_80\n.address_size 64\n";
  std::vector<std::byte> image(text.size() + 1);
  std::memcpy(image.data(), text.data(), text.size());
  return image;
}

std::vector<std::byte> Pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> pattern(bytes);
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::byte& byte : pattern) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return pattern;
}

}  // namespace cuspan::proxy

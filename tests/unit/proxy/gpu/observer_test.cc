#include "proxy/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace cuspan::proxy {
namespace {

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.status().message();
    std::abort();
  }
  return std::move(*result);
}

// An observer of the fake NVML's first device, in a thread, and the client's end of its channel.
class Observer : public ::testing::Test {
 protected:
  Observer() {
    UniqueFd memory = Must(Channel::Create(ChannelLayout{2048, 1, 4096}));
    const auto attach = [&](ChannelSide side, Bell& own, Bell& peer) {
      return Must(Channel::Attach(UniqueFd(::dup(memory.get())), side, &own,
                                  Must(Bell::Open(UniqueFd(::dup(peer.fd()))))));
    };
    client_ = attach(ChannelSide::kClient, client_bell_, proxy_bell_);
    proxy_ = attach(ChannelSide::kProxy, proxy_bell_, client_bell_);
    thread_ = std::thread([this] {
      NvmlDevice device({1});
      ended_ = Observe(*proxy_, device);
    });
  }
  ~Observer() override {
    client_->Close(false);
    if (thread_.joinable()) thread_.join();
  }
  Status Ended() {
    thread_.join();
    return ended_;
  }
  NvmlAnswer Next() {
    client_bell_.Wait([&] { return client_->HasFrame() || client_->closed(); },
                      std::chrono::seconds(30), WaitStages::ForThisMachine());
    const std::optional<Frame> frame = Must(client_->Peek());
    if (!frame) return {};
    NvmlAnswer answer = Must(ParseMessage<NvmlAnswer>(*frame));
    client_->Pop();
    return answer;
  }

  Bell client_bell_ = Must(Bell::Create());
  Bell proxy_bell_ = Must(Bell::Create());
  std::unique_ptr<Channel> client_;
  std::unique_ptr<Channel> proxy_;
  std::thread thread_;
  Status ended_;
};

TEST_F(Observer, AnswersUntilTheChannelIsClosed) {
  client_->Post(NvmlAsk{"nvmlDeviceGetTemperature", {0}});
  client_->Post(NvmlAsk{"nvmlDeviceGetUtilizationRates", {}});
  EXPECT_THAT(Next().values, ::testing::ElementsAre(41));
  EXPECT_THAT(Next().values, ::testing::ElementsAre(93, 17));
  client_->Close(false);
  EXPECT_TRUE(Ended().ok());
}

// An observer does no GPU work.
TEST_F(Observer, EndsWithWhateverElseComes) {
  client_->Post(MemoryMap{0x1000, 0x1000}, 1);
  const Status ended = Ended();
  EXPECT_EQ(ended.code(), StatusCode::kInvalid);
  EXPECT_THAT(ended.message(), ::testing::HasSubstr("MemoryMap"));
  EXPECT_TRUE(client_->closed());
  EXPECT_TRUE(client_->lost());
}

}  // namespace
}  // namespace cuspan::proxy

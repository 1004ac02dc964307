// Sends frames no correct client sends. Each ends the session with a reason, and has no other
// effect.
#include <functional>
#include <limits>

#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using ::testing::HasSubstr;

struct Malformed {
  const char* name;
  std::function<void(ServerTest&, Loopback&, TestClient&)> send;
  const char* reason;  // Part of the session's error message.
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.name; }

class MalformedTest : public ServerTest, public ::testing::WithParamInterface<Malformed> {};

template <typename T>
FrameHeader HeaderOf(const T& op) {
  FrameHeader header;
  header.op = static_cast<std::uint16_t>(T::kOp);
  header.payload_bytes = static_cast<std::uint32_t>(EncodedSize(op));
  return header;
}

// Posts `op` with a header changed by `spoil`.
template <typename T>
void PostSpoiled(TestClient& client, const T& op, const std::function<void(FrameHeader&)>& spoil) {
  FrameHeader header = HeaderOf(op);
  std::vector<std::byte> payload(header.payload_bytes);
  EncodeInto(std::span(payload), op);
  spoil(header);
  ASSERT_TRUE(client.channel().TryPost(header, payload));
}

TEST_P(MalformedTest, EndsTheSessionWithAReason) {
  expect_end_ok_ = false;
  const std::uint64_t block = loopback.Map();
  GetParam().send(*this, loopback, client);
  const Status end = loopback.AwaitEnd();
  ASSERT_FALSE(end.ok());
  EXPECT_THAT(end.message(), HasSubstr(GetParam().reason));
  EXPECT_TRUE(client.channel().closed());
  EXPECT_TRUE(client.channel().lost());
  EXPECT_EQ(client.Post(Memset{0, block, 0, 1, 1}), 0U) << "nothing goes through a closed channel";
}

using Test = ServerTest;

const Malformed kMalformed[] = {
    {"CommunicatorWithoutAHandle",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CommunicatorJoin{0, "", 1, 0, {RankId()}, {}});
     },
     "communicator 0x0 is not a new handle"},
    {"CommunicatorWithoutAnId",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CommunicatorJoin{7, "", 1, 0, {}, {}});
     },
     "communicator 0x7 has no id"},
    {"CommunicatorThatEndsInNoWay",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CommunicatorEnd{7, 99});
     },
     "communicator 0x7 is to end in the unknown way 99"},
    {"FactorThatIsNcclsOwn",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CommunicatorFactor{7, 1, nccl::kFloat32, false, 0});
     },
     "operation 1 is built into NCCL"},
    {"FileWithoutANumber", [](Test&, Loopback&, TestClient& client) { client.Post(FileOpen{0}); },
     "file 0x0 is not a new handle"},
    {"FileThatIsNotOpen",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(FileRead{0, 7, 0, 0, 1, 2, 3});
     },
     "file 0x7 does not exist"},
    {"CounterpartOfNoFile",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(FileFind{7, "/", 1, 1});
     },
     "file 0x7 does not exist"},
    {"CounterpartOfAFileOfTheFarFuture",
     [](Test&, Loopback&, TestClient& client) {
       client.Call(FileOpen{7});
       client.Post(FileFind{7, "/", 1, ~std::uint64_t{0}});
     },
     "a file written 18446744073709551615 ns after 1970"},
    {"NamedFileWithARelativePath",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(FileOpenNamed{7, "data/file", 1});
     },
     "a file is to be opened by the name 'data/file' with access 1"},
    {"NamedFileWithUnknownAccess",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(FileOpenNamed{7, "/data/file", 33});
     },
     "a file is to be opened by the name '/data/file' with access 33"},
    {"ProofForNoFile",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(FileProve{7, 1});
     },
     "file 0x7 does not exist"},
    {"FileTransferEndedWhileTheCounterpartIsRead",
     [](Test&, Loopback&, TestClient& client) {
       client.Call(FileOpen{7});
       client.Call(FileFind{7, "/no/such/file", 1, 1});
       client.Post(StreamWaitSignal{0, 1});
       client.Post(FileRead{0, 7, kWindow, 0, 10, 2, 3, true});
       client.Post(FileDone{2, 0, 0, 0});
     },
     "the end of the unknown file transfer 2"},
    {"CounterpartThatIsNotThere",
     [](Test&, Loopback&, TestClient& client) {
       client.Call(FileOpen{7});
       client.Post(FileRead{0, 7, kWindow, 0, 10, 2, 3, true});
       client.Await([](const Received& received) { return !received.files.empty(); });
       client.Post(FileDone{2, 0, 0, 0, true});
     },
     "file transfer 2 has no counterpart to read"},
    {"CounterpartAfterTheClientsBytes",
     [](Test&, Loopback&, TestClient& client) {
       client.Call(FileOpen{7});
       client.Post(FileRead{0, 7, kWindow, 0, 10, 2, 3, true});
       client.Await([](const Received& received) { return !received.files.empty(); });
       client.SendChunks(2, std::vector<std::byte>(10));
       client.Post(FileDone{2, 0, 0, 0, true});
     },
     "file transfer 2 has no counterpart to read"},
    {"FileClosedTwice",
     [](Test&, Loopback&, TestClient& client) {
       client.Call(FileOpen{7});
       client.Call(FileClose{7});
       client.Post(FileClose{7});
     },
     "file 0x7 does not exist"},
    {"FileWithAnOffsetThatOverflows",
     [](Test&, Loopback&, TestClient& client) {
       client.Call(FileOpen{7});
       client.Post(FileWrite{0, 7, 0, ~std::uint64_t{0} - 5, 10, 2, 3});
     },
     "10 bytes at offset 18446744073709551610 of a file"},
    {"FileTransferUsedTwice",
     [](Test&, Loopback&, TestClient& client) {
       client.Call(FileOpen{7});
       client.Post(StreamWaitSignal{0, 1});
       client.Post(FileWrite{0, 7, kWindow, 0, 10, 2, 3});
       client.Post(FileWrite{0, 7, kWindow, 0, 10, 2, 3});
     },
     "transfer 2 is already under way"},
    {"FileTransferThatNobodyBegan",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(FileDone{9, 0, 0, 0});
     },
     "the end of the unknown file transfer 9"},
    {"FileTransferEndedBeforeItsTurn",
     [](Test&, Loopback&, TestClient& client) {
       client.Call(FileOpen{7});
       client.Post(StreamWaitSignal{0, 1});
       client.Post(FileRead{0, 7, kWindow, 0, 10, 2, 3});
       client.Post(FileDone{2, 0, 0, 0});
     },
     "the end of the unknown file transfer 2"},
    {"FileTransferOfMoreThanItsBytes",
     [](Test&, Loopback&, TestClient& client) {
       client.Call(FileOpen{7});
       client.Post(FileRead{0, 7, kWindow, 0, 10, 2, 3});
       client.Await([](const Received& received) { return !received.files.empty(); });
       client.Post(FileDone{2, 11, 0, 11});
     },
     "the end of the unknown file transfer 2 after 11 bytes"},
    {"GroupOfNoCalls",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CollectiveGroup{0, 0, {}});
     },
     "a group of 0 collective calls"},
    {"GroupOfCallsOfNoKind",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CollectiveGroup{0, 0, {{99, 7, 0, 0, 1, 0, 0, 0}}});
     },
     "a group of 1 collective calls is empty or contains unknown calls"},
    {"GroupOfCallsOfNoType",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CollectiveGroup{0, 0, {{0, 7, 0, 0, 1, 99, 0, 0}}});
     },
     "a group of 1 collective calls is empty or contains unknown calls"},
    {"GroupWithoutItsStart",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CollectiveGroup{0, 5, {{0, 7, 0, 0, 1, 0, 0, 0}}});
     },
     "group 5 of calls has no first part"},
    {"CallsOfNoGroup",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CollectiveCalls{0, {{0, 7, 0, 0, 1, 0, 0, 0}}});
     },
     "collective calls are stored"},
    {"MemoryBatchOfNothing",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(MemoryBatch{0, {}});
     },
     "an invalid batch of 0 memory operations"},
    {"MemoryBatchOfTooMany",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(
           MemoryBatch{0, std::vector<MemoryOperation>(256, {CU_STREAM_MEM_OP_BARRIER, 0, 0, 0})});
     },
     "an invalid batch of 256 memory operations"},
    {"MemoryOperationOfNoKind",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(MemoryBatch{0, {{99, 0, 0, 0}}});
     },
     "a memory operation of the unknown kind 99"},
    {"PatchOfNothing",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(PatchMemory{0, kWindow, {}, {}});
     },
     "a patch of 0 bytes with a mask of 0"},
    {"PatchOfTooMuch",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> bytes(2056);
       client.Post(PatchMemory{0, kWindow, Bytes(bytes).first(257), bytes});
     },
     "a patch of 2056 bytes with a mask of 257"},
    {"PatchWithShortMask",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> bytes(16);
       client.Post(PatchMemory{0, kWindow, Bytes(bytes).first(1), bytes});
     },
     "a patch of 16 bytes with a mask of 1"},
    {"PatchOfHalfAWord",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> bytes(12);
       client.Post(PatchMemory{0, kWindow, Bytes(bytes).first(2), bytes});
     },
     "a patch of 12 bytes with a mask of 2"},
    {"UnalignedPatch",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> bytes(8);
       client.Post(PatchMemory{0, kWindow + 4, Bytes(bytes).first(1), bytes});
     },
     "not a multiple of 8"},
    {"Magic",
     [](Test&, Loopback&, TestClient& client) {
       PostSpoiled(client, Signal{1}, [](FrameHeader& header) { header.magic = 0x1234; });
     },
     "magic"},
    {"Version",
     [](Test&, Loopback&, TestClient& client) {
       PostSpoiled(client, Signal{1}, [](FrameHeader& header) { header.version = 9; });
     },
     "version"},
    {"Flags",
     [](Test&, Loopback&, TestClient& client) {
       PostSpoiled(client, Signal{1}, [](FrameHeader& header) { header.flags = 0x82; });
     },
     "flags"},
    {"OpNumber",
     [](Test&, Loopback&, TestClient& client) {
       PostSpoiled(client, Signal{1}, [](FrameHeader& header) { header.op = 60'000; });
     },
     "op 60000"},
    {"OpZero",
     [](Test&, Loopback&, TestClient& client) {
       PostSpoiled(client, Signal{1}, [](FrameHeader& header) { header.op = 0; });
     },
     "op 0"},
    {"ControlOp", [](Test&, Loopback&, TestClient& client) { client.Post(RunEnd{}); }, "RunEnd"},
    {"Push", [](Test&, Loopback&, TestClient& client) { client.Post(DeviceFault{700}); },
     "DeviceFault"},
    {"Reply",
     [](Test&, Loopback&, TestClient& client) {
       PostSpoiled(client, Signal{1}, [](FrameHeader& header) { header.flags = kFrameReply; });
     },
     "a reply"},
    {"Length",
     [](Test&, Loopback&, TestClient& client) {
       PostSpoiled(client, Signal{1}, [](FrameHeader& header) { header.payload_bytes = 1U << 31; });
     },
     "claims"},
    {"ShortPayload",
     [](Test&, Loopback&, TestClient& client) {
       PostSpoiled(client, Signal{1}, [](FrameHeader& header) { header.payload_bytes = 7; });
     },
     "malformed Signal"},
    {"LongPayload",
     [](Test&, Loopback&, TestClient& client) {
       PostSpoiled(client, Signal{1}, [](FrameHeader& header) { header.payload_bytes = 9; });
     },
     "malformed Signal"},
    {"InnerLength",
     [](Test&, Loopback&, TestClient& client) {
       // The length field of the bytes exceeds the frame.
       const std::uint64_t fields[] = {0, kWindow, 0xffff'ffff};
       FrameHeader header = HeaderOf(CopyToDeviceInline{});
       header.payload_bytes = 20;
       client.channel().TryPost(header, std::as_bytes(std::span(fields)).first(20));
     },
     "malformed CopyToDeviceInline"},
    {"Stream", [](Test&, Loopback&, TestClient& client) { client.Post(StreamSynchronize{4711}); },
     "stream 0x1267"},
    {"PerThreadStream",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(Memset{2, kWindow, 0, 1, 1});
     },
     "stream 0x2"},
    {"StreamTwice",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(StreamCreate{50, 0, 0});
       client.Post(StreamCreate{50, 0, 0});
     },
     "stream 0x32 is not a new handle"},
    {"LegacyStreamCreated",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(StreamCreate{1, 0, 0});
     },
     "not a new handle"},
    {"DestroyedStream",
     [](Test&, Loopback& loopback, TestClient& client) {
       const std::uint64_t stream = loopback.NewStream();
       client.Post(StreamDestroy{stream});
       client.Post(StreamDestroy{stream});
     },
     "does not exist"},
    {"Event",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(EventRecord{77, 0, 1});
     },
     "event 0x4d"},
    {"EventTwice",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(EventCreate{77, 0});
       client.Post(EventCreate{77, 0});
     },
     "event 0x4d is not a new handle"},
    {"RecordNumber",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(EventCreate{77, 0});
       client.Post(EventRecord{77, 0, 2});
     },
     "record 2"},
    {"Kernel",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(Launch{88, 0, {1, 1, 1}, {1, 1, 1}, 0, false, {}});
     },
     "kernel 0x58"},
    {"KernelTwice",
     [](Test&, Loopback& loopback, TestClient& client) {
       const std::uint64_t module = loopback.LoadModule(AnyImage());
       const std::uint64_t kernel = loopback.FindKernel(module, "nothing");
       client.Post(KernelFind{module, kernel, "nothing"});
     },
     "not a new handle"},
    {"Arguments",
     [](Test&, Loopback& loopback, TestClient& client) {
       const std::uint64_t kernel = loopback.FindKernel(loopback.LoadModule(AnyImage()), "add");
       const std::vector<std::byte> arguments(15);
       client.Post(Launch{kernel, 0, {1, 1, 1}, {1, 1, 1}, 0, false, arguments});
     },
     "15 bytes of arguments; the kernel takes 16"},
    {"Module", [](Test&, Loopback&, TestClient& client) { client.Post(ModuleLoad{99}); },
     "module 0x63"},
    {"ModuleUnloaded", [](Test&, Loopback&, TestClient& client) { client.Post(ModuleUnload{99}); },
     "module 0x63"},
    {"ModuleNotLoaded",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> image = AnyImage();
       client.Post(ModuleImage{99, image.size(), 0, image});
       client.Post(KernelFind{99, 100, "add"});
     },
     "not loaded"},
    {"ModuleGap",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> image = AnyImage();
       client.Post(ModuleImage{99, 1000, 0, image});
       client.Post(ModuleImage{99, 1000, 500, image});
     },
     "do not continue"},
    {"ModuleTooLong",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> image = AnyImage();
       client.Post(ModuleImage{99, 10, 0, image});
     },
     "do not continue"},
    {"ModuleOfGreatSize",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> image = AnyImage();
       client.Post(ModuleImage{99, std::uint64_t{1} << 62, 0, image});
     },
     "its image of"},
    {"ModuleIncomplete",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> image = AnyImage();
       client.Post(ModuleImage{99, 1000, 0, image});
       client.Post(ModuleLoad{99});
     },
     "of 1000 bytes"},
    {"ModuleOptions",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> image = AnyImage();
       client.Post(ModuleImage{99, image.size(), 0, image});
       client.Post(ModuleLoad{99, {{{CU_JIT_GLOBAL_SYMBOL_ADDRESSES, 8}}, 0, 0}});
     },
     "option 18"},
    {"ModuleManyOptions",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(LinkerCreate{99, {std::vector<JitOption>(1000), 0, 0}});
     },
     "1000 options"},
    {"Linker", [](Test&, Loopback&, TestClient& client) { client.Post(LinkerComplete{99}); },
     "linker 0x63"},
    {"LinkerTwice",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(LinkerCreate{99, {}});
       client.Post(LinkerCreate{99, {}});
     },
     "not a new handle"},
    {"LinkerWithoutInput",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(LinkerCreate{99, {}});
       client.Post(LinkerAdd{99, 1, "", {}});
     },
     "of 0 bytes"},
    {"LinkerGap",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> image = AnyImage();
       client.Post(LinkerCreate{99, {}});
       client.Post(LinkerInput{99, 1000, 0, image});
       client.Post(LinkerInput{99, 1000, 500, image});
     },
     "do not continue"},
    {"LinkerOfGreatSize",
     [](Test&, Loopback&, TestClient& client) {
       const std::vector<std::byte> image = AnyImage();
       client.Post(LinkerCreate{99, {}});
       client.Post(LinkerInput{99, std::uint64_t{1} << 62, 0, image});
     },
     "do not continue"},
    {"MapOutside",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(MemoryMap{0x1000, 4096});
     },
     "outside"},
    {"MapBeyond",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(MemoryMap{kWindow + kWindowBytes - 4096, 8192});
     },
     "outside"},
    {"MapAround",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(MemoryMap{kWindow + 4096, std::numeric_limits<std::uint64_t>::max() - 4096});
     },
     "outside"},
    {"MapNothing",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(MemoryMap{kWindow, 0});
     },
     "outside"},
    {"ElementSize",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(Memset{0, kWindow, 0, 3, 1});
     },
     "elements of 3 bytes"},
    {"ElementCount",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(Memset{0, kWindow, 0, 4, std::uint64_t{1} << 62});
     },
     "elements of 4 bytes"},
    {"BoolThatIsNone",
     [](Test&, Loopback&, TestClient& client) {
       const Launch launch{88, 0, {1, 1, 1}, {1, 1, 1}, 0, true, {}};
       std::vector<std::byte> payload(EncodedSize(launch));
       EncodeInto(std::span(payload), launch);
       // Before three numbers: of arguments, mark and value.
       payload[payload.size() - 3 * sizeof(std::uint32_t) - 1] = std::byte{2};
       client.channel().TryPost(HeaderOf(launch), payload);
     },
     "malformed Launch"},
    {"TransferTwice",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CopyToDevice{0, kWindow, 8, 5});
       client.Post(CopyToDevice{0, kWindow, 8, 5});
     },
     "transfer 5 is already"},
    {"ChunkOfNothing",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(Chunk{6, 0, 8, 0});
     },
     "transfer 6"},
    {"ChunkSlot",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CopyToDevice{0, kWindow, 8, 5});
       client.Post(Chunk{5, 0, 8, 4});
     },
     "slot 4"},
    {"ChunkTooLarge",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CopyToDevice{0, kWindow, 1 << 20, 5});
       client.Post(Chunk{5, 0, 8192, 0});
     },
     "chunk of 8192 bytes"},
    {"ChunkOfNoBytes",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CopyToDevice{0, kWindow, 8, 5});
       client.Post(Chunk{5, 0, 0, 0});
     },
     "chunk of 0 bytes"},
    {"ChunkBeyond",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CopyToDevice{0, kWindow, 8, 5});
       client.Post(Chunk{5, 4, 8, 0});
     },
     "bytes 4 + 8"},
    {"ChunkFarBeyond",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CopyToDevice{0, kWindow, 8, 5});
       client.Post(Chunk{5, ~std::uint64_t{0} - 3, 8, 0});
     },
     "transfer 5 with 8 bytes"},
    {"ChunkNotWanted",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CopyToDevice{0, kWindow, 8, 4});
       client.Post(CopyToDevice{0, kWindow, 8, 5});
       client.Post(Chunk{5, 0, 8, 0});
     },
     "before its clear to send"},
    {"EarlyChunkTwice",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(StreamWaitSignal{0, 1});
       client.Post(CopyToDevice{0, kWindow, 8, 5, true});
       client.Post(Chunk{5, 0, 8, 0});
       client.Post(Chunk{5, 0, 8, 1});
     },
     "8 bytes received before"},
    {"EarlyCopyTooLarge",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(CopyToDevice{0, kWindow, kMaxEarlyBytes + 1, 5, true});
     },
     "early copy 5 of 1048577 bytes"},
    {"EarlyCopiesTooMany",
     [](Test&, Loopback&, TestClient& client) {
       client.Post(StreamWaitSignal{0, 1});
       for (std::uint64_t i = 0; i <= kMaxEarlyInAll / kMaxEarlyBytes; ++i)
         client.Post(CopyToDevice{0, kWindow, kMaxEarlyBytes, i, true});
     },
     "early copy 8 of 1048576 bytes, with 8388608 bytes of others before"},
};

INSTANTIATE_TEST_SUITE_P(Frames, MalformedTest, ::testing::ValuesIn(kMalformed),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(ServerTest, AClosedChannelEndsTheSessionWillingly) {
  client.Post(CopyToDevice{0, kWindow, 8, 4});
  const Status end = loopback.End();
  EXPECT_TRUE(end.ok()) << end.message();
  EXPECT_FALSE(client.channel().lost());
}

}  // namespace
}  // namespace cuspan::proxy

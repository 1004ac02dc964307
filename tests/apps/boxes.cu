// Copies and sets of rows and planes: pitched memory, boxes inside larger ones, between host and
// device, pinned or not, and invalid arguments.
#include <cstring>
#include <vector>

#include "check.h"
#include "releases.h"

namespace {

using Byte = unsigned char;
int failures = 0;

struct Box {
  std::size_t width, rows, planes;
};

Byte Pattern(std::size_t x, std::size_t y, std::size_t z, int seed) {
  return static_cast<Byte>(x * 3 + y * 7 + z * 13 + static_cast<std::size_t>(seed));
}

// Memory with room around a box at (x, y, z).
struct Frame {
  std::size_t pitch, height, depth;
  std::size_t bytes() const { return pitch * height * depth; }
  std::size_t at(std::size_t x, std::size_t y, std::size_t z) const {
    return (z * height + y) * pitch + x;
  }
};

std::vector<Byte> Filled(const Frame& frame, int seed) {
  std::vector<Byte> bytes(frame.bytes());
  for (std::size_t z = 0; z < frame.depth; ++z)
    for (std::size_t y = 0; y < frame.height; ++y)
      for (std::size_t x = 0; x < frame.pitch; ++x)
        bytes[frame.at(x, y, z)] = Pattern(x, y, z, seed);
  return bytes;
}

// Number of wrong elements in `result`. Inside the box, `source` is expected, outside of it the
// earlier contents.
long Wrong(const std::vector<Byte>& result, const std::vector<Byte>& before, const Frame& to,
           cudaPos at, const std::vector<Byte>& source, const Frame& from, cudaPos start,
           const Box& box) {
  long wrong = 0;
  for (std::size_t z = 0; z < to.depth; ++z)
    for (std::size_t y = 0; y < to.height; ++y)
      for (std::size_t x = 0; x < to.pitch; ++x) {
        const bool inside = x >= at.x && x < at.x + box.width && y >= at.y && y < at.y + box.rows &&
                            z >= at.z && z < at.z + box.planes;
        const Byte expected =
            inside ? source[from.at(x - at.x + start.x, y - at.y + start.y, z - at.z + start.z)]
                   : before[to.at(x, y, z)];
        wrong += result[to.at(x, y, z)] != expected;
      }
  return wrong;
}

cudaPitchedPtr Pointer(void* memory, const Frame& frame) {
  return make_cudaPitchedPtr(memory, frame.pitch, frame.pitch, frame.height);
}

// Copies one box to the device, inside it, and back, by 3-D copies.
void Copy3D(const Frame& host, const Frame& device, cudaPos at, cudaPos start, const Box& box,
            bool pinned, bool asynchronous) {
  const std::vector<Byte> source = Filled(host, 1);
  const std::vector<Byte> before = Filled(device, 100);
  Byte* memory = nullptr;
  Byte* other = nullptr;
  Byte* bytes = nullptr;
  CHECK(cudaMalloc(&memory, device.bytes()));
  CHECK(cudaMalloc(&other, device.bytes()));
  if (pinned)
    CHECK(cudaMallocHost(&bytes, host.bytes()));
  else
    bytes = static_cast<Byte*>(std::malloc(host.bytes()));
  std::memcpy(bytes, source.data(), host.bytes());
  CHECK(cudaMemcpy(memory, before.data(), device.bytes(), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(other, before.data(), device.bytes(), cudaMemcpyHostToDevice));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  const auto copy = [&](const cudaMemcpy3DParms& parameters) {
    CHECK(asynchronous ? cudaMemcpy3DAsync(&parameters, stream) : cudaMemcpy3D(&parameters));
  };
  cudaMemcpy3DParms there{};
  there.srcPtr = Pointer(bytes, host);
  there.srcPos = start;
  there.dstPtr = Pointer(memory, device);
  there.dstPos = at;
  there.extent = make_cudaExtent(box.width, box.rows, box.planes);
  there.kind = cudaMemcpyHostToDevice;
  copy(there);
  cudaMemcpy3DParms across{};
  across.srcPtr = Pointer(memory, device);
  across.srcPos = at;
  across.dstPtr = Pointer(other, device);
  across.dstPos = at;
  across.extent = there.extent;
  across.kind = cudaMemcpyDeviceToDevice;
  copy(across);
  CHECK(cudaStreamSynchronize(stream));
  std::vector<Byte> result(device.bytes());
  CHECK(cudaMemcpy(result.data(), memory, device.bytes(), cudaMemcpyDeviceToHost));
  long wrong = Wrong(result, before, device, at, source, host, start, box);
  EXPECT(wrong == 0, "%ld bytes wrong after the copy to the device", wrong);
  CHECK(cudaMemcpy(result.data(), other, device.bytes(), cudaMemcpyDeviceToHost));
  wrong = Wrong(result, before, device, at, source, host, start, box);
  EXPECT(wrong == 0, "%ld bytes wrong after the copy on the device", wrong);
  std::memset(bytes, 0xee, host.bytes());
  cudaMemcpy3DParms back{};
  back.srcPtr = Pointer(other, device);
  back.srcPos = at;
  back.dstPtr = Pointer(bytes, host);
  back.dstPos = start;
  back.extent = there.extent;
  back.kind = cudaMemcpyDefault;
  copy(back);
  CHECK(cudaStreamSynchronize(stream));
  const std::vector<Byte> untouched(host.bytes(), 0xee);
  const std::vector<Byte> returned(bytes, bytes + host.bytes());
  wrong = Wrong(returned, untouched, host, start, source, host, start, box);
  EXPECT(wrong == 0, "%ld bytes wrong after the copy to the host", wrong);
  CHECK(cudaStreamDestroy(stream));
  if (pinned)
    CHECK(cudaFreeHost(bytes));
  else
    std::free(bytes);
  CHECK(cudaFree(memory));
  CHECK(cudaFree(other));
}

// Copies rows to memory of cudaMallocPitch and back.
void Copy2D(std::size_t width, std::size_t rows, std::size_t host_pitch) {
  Byte* device = nullptr;
  std::size_t pitch = 0;
  CHECK(cudaMallocPitch(&device, &pitch, width, rows));
  EXPECT(pitch >= width, "a pitch of %zu for rows of %zu", pitch, width);
  const Frame host{host_pitch, rows, 1};
  const std::vector<Byte> source = Filled(host, 9);
  CHECK(
      cudaMemcpy2D(device, pitch, source.data(), host_pitch, width, rows, cudaMemcpyHostToDevice));
  std::vector<Byte> back(host.bytes(), 0);
  CHECK(cudaMemcpy2D(back.data(), host_pitch, device, pitch, width, rows, cudaMemcpyDeviceToHost));
  long wrong = Wrong(back, std::vector<Byte>(host.bytes(), 0), host, {0, 0, 0}, source, host,
                     {0, 0, 0}, {width, rows, 1});
  EXPECT(wrong == 0, "%ld bytes of %zu x %zu wrong", wrong, width, rows);
  // A set leaves the bytes between rows unchanged: here, the last byte of each row.
  CHECK(cudaMemset2D(device, pitch, 0x5a, width - 1, rows));
  CHECK(cudaMemcpy2DAsync(back.data(), host_pitch, device, pitch, width, rows,
                          cudaMemcpyDeviceToHost, nullptr));
  CHECK(cudaDeviceSynchronize());
  wrong = 0;
  for (std::size_t y = 0; y < rows; ++y)
    for (std::size_t x = 0; x < width; ++x)
      wrong += back[host.at(x, y, 0)] != (x < width - 1 ? 0x5a : source[host.at(x, y, 0)]);
  EXPECT(wrong == 0, "%ld bytes wrong after a set of rows", wrong);
  CHECK(cudaFree(device));
}

void Set3D() {
  const cudaExtent extent = make_cudaExtent(100, 20, 6);
  cudaPitchedPtr memory{};
  CHECK(cudaMalloc3D(&memory, extent));
  CHECK(cudaMemset3D(memory, 0x11, extent));
  CHECK(cudaMemset3D(memory, 0x22, make_cudaExtent(50, 10, 3)));
  std::vector<Byte> result(100 * 20 * 6);
  cudaMemcpy3DParms back{};
  back.srcPtr = memory;
  back.dstPtr = make_cudaPitchedPtr(result.data(), 100, 100, 20);
  back.extent = extent;
  back.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3D(&back));
  long wrong = 0;
  for (int z = 0; z < 6; ++z)
    for (int y = 0; y < 20; ++y)
      for (int x = 0; x < 100; ++x)
        wrong += result[(z * 20 + y) * 100 + x] != (x < 50 && y < 10 && z < 3 ? 0x22 : 0x11);
  EXPECT(wrong == 0, "%ld bytes wrong after sets of boxes", wrong);
  CHECK(cudaFree(memory.ptr));
}

void Refused() {
  Byte* device = nullptr;
  CHECK(cudaMalloc(&device, 64 * 64));
  std::vector<Byte> host(64 * 64);
  EXPECT(cudaMemcpy2D(device, 16, host.data(), 64, 32, 4, cudaMemcpyHostToDevice) ==
             cudaErrorInvalidPitchValue,
         "rows wider than their pitch");
  EXPECT(cudaMemcpy2D(device, 64, host.data(), 64, 64, 65, cudaMemcpyHostToDevice) ==
             cudaErrorInvalidValue,
         "more rows than there are");
  EXPECT(cudaMemcpy2D(device, 64, host.data(), 64, 0, 10, cudaMemcpyHostToDevice) == cudaSuccess,
         "no bytes");
  static_cast<void>(cudaGetLastError());
  CHECK(cudaFree(device));
}

#if CUDART_VERSION >= 12080
// Runs and boxes copied in batches, without gaps on the host's side.
void Batches() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const Frame tight{40, 9, 5};
  const Frame room{64, 12, 5};
  const std::vector<Byte> source = Filled(tight, 1);
  Byte* device = nullptr;
  CHECK(cudaMalloc(&device, room.bytes() + tight.bytes()));
  CHECK(cudaMemset(device, 0, room.bytes() + tight.bytes()));
  CHECK(cudaDeviceSynchronize());  // The stream is non-blocking.
  Byte* const second = device + room.bytes();

  // A run in two pieces. One source need not outlive the call.
  std::vector<Byte> piece(source.begin(), source.begin() + 100);
  void* to[] = {second, second + piece.size()};
  void* from[] = {piece.data(), const_cast<Byte*>(source.data()) + piece.size()};
  std::size_t sizes[] = {piece.size(), source.size() - piece.size()};
  cudaMemcpyAttributes attributes[2] = {};
  attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderAny;
  std::size_t first[] = {0, 1};
  CHECK(CopyBatch(to, from, sizes, 2, attributes, first, 2, stream));
  piece.assign(piece.size(), 0);

  cudaMemcpy3DBatchOp box{};
  box.src.type = box.dst.type = cudaMemcpyOperandTypePointer;
  box.src.op.ptr.ptr = second;
  box.dst.op.ptr.ptr = device;
  box.dst.op.ptr.rowLength = room.pitch;
  box.dst.op.ptr.layerHeight = room.height;
  box.extent = {tight.pitch, tight.height, tight.depth};
  box.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  CHECK(CopyBatch(&box, 1, stream));
  std::vector<Byte> back(tight.bytes());
  box.src = box.dst;
  box.dst.op.ptr = {};
  box.dst.op.ptr.ptr = back.data();
  CHECK(CopyBatch(&box, 1, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(back == source, "after batches of copies");

  EXPECT(CopyBatch(to, from, sizes, 2, attributes, first, 2, nullptr) == cudaErrorInvalidValue,
         "a batch in the legacy default stream");
  box.extent.depth = 0;
  EXPECT(CopyBatch(&box, 1, stream) == cudaErrorInvalidValue, "a box of nothing in a batch");
  static_cast<void>(cudaGetLastError());
  CHECK(cudaFree(device));
  CHECK(cudaStreamDestroy(stream));
}
#endif

}  // namespace

int main() {
  DeviceCount();
  for (const bool pinned : {false, true})
    for (const bool asynchronous : {false, true}) {
      Copy3D({64, 16, 8}, {128, 20, 10}, {3, 2, 1}, {5, 1, 2}, {40, 9, 5}, pinned, asynchronous);
      Copy3D({1 << 12, 64, 12}, {5000, 70, 12}, {0, 0, 0}, {0, 0, 0}, {1 << 12, 64, 12}, pinned,
             asynchronous);
      Copy3D({64, 1, 1}, {64, 1, 1}, {0, 0, 0}, {0, 0, 0}, {64, 1, 1}, pinned, asynchronous);
    }
  Copy2D(100, 50, 100);
  Copy2D(100, 50, 133);
  Copy2D(5000, 700, 5001);
  Copy2D(2, 3000, 40);
  Set3D();
  Refused();
#if CUDART_VERSION >= 12080
  Batches();
#endif
  std::printf("boxes: %s\n", Verdict(failures));
  return ExitStatus(failures);
}

// The field types of the op table that C++ does not have by itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cuspan {

// Who waits for an op; see ops.table.
enum class OpClass { kControl, kPosted, kCall, kPush, kChunk };

// Bytes inside the frame that was decoded: valid as long as the frame is.
using Bytes = std::span<const std::byte>;

// The secret of a run.
using Key128 = std::array<std::uint8_t, 16>;
// Compares in a time that does not depend on where they differ.
inline bool SameSecret(const Key128& a, const Key128& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.x);
    visit(self.y);
    visit(self.z);
  }
};

// How a kernel is launched.
struct GridShape {
  Dim3 grid, block;                  // In blocks and threads.
  Dim3 cluster;                      // In blocks; one block: what the kernel itself says.
  std::uint32_t dynamic_shared = 0;  // Bytes.
  bool cooperative = false;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.grid);
    visit(self.block);
    visit(self.cluster);
    visit(self.dynamic_shared);
    visit(self.cooperative);
  }
};

// The device addresses that one device of a session may use.
struct AddressWindow {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  // A proxy that can not have `base` tries base + stride, base + 2 × stride, …;
  // the stride spans the windows of all devices, so that they never meet.
  std::uint64_t stride = 0;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.base);
    visit(self.bytes);
    visit(self.stride);
  }
};

// Where a box of bytes lies on a device: in an array, or in memory as rows.
struct BoxPlace {
  std::uint64_t array = 0;            // Its handle; 0 for memory.
  std::uint64_t address = 0;          // Of memory: where its first row starts.
  std::uint64_t pitch = 0;            // Of memory: bytes from one row to the next,
  std::uint64_t plane_rows = 0;       // and rows from one plane to the next.
  std::uint64_t x = 0, y = 0, z = 0;  // Where the box starts: bytes, rows, planes.
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.array);
    visit(self.address);
    visit(self.pitch);
    visit(self.plane_rows);
    visit(self.x);
    visit(self.y);
    visit(self.z);
  }
};

struct BoxExtent {
  std::uint64_t width = 0;  // Bytes of a row.
  std::uint64_t rows = 0;
  std::uint64_t planes = 0;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.width);
    visit(self.rows);
    visit(self.planes);
  }
};

// What an array is made of: the fields of CUDA_ARRAY3D_DESCRIPTOR.
struct ArrayShape {
  std::uint64_t width = 0, height = 0, depth = 0;  // In elements; 0 where it has no such dimension.
  std::uint32_t format = 0;                        // CUarray_format
  std::uint32_t channels = 0;
  std::uint32_t flags = 0;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.width);
    visit(self.height);
    visit(self.depth);
    visit(self.format);
    visit(self.channels);
    visit(self.flags);
  }
};

// What a texture object reads: the fields of CUDA_RESOURCE_DESC that its kind has.
struct TextureResource {
  std::uint32_t kind = 0;     // CUresourcetype
  std::uint64_t array = 0;    // An array, or a mipmapped one.
  std::uint64_t address = 0;  // Memory: linear, or rows a pitch apart.
  std::uint32_t format = 0;
  std::uint32_t channels = 0;
  std::uint64_t width = 0;  // Elements of a row; bytes where memory is linear.
  std::uint64_t height = 0;
  std::uint64_t pitch = 0;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.kind);
    visit(self.array);
    visit(self.address);
    visit(self.format);
    visit(self.channels);
    visit(self.width);
    visit(self.height);
    visit(self.pitch);
  }
};

// How a texture object reads it: the fields of CUDA_TEXTURE_DESC.
struct TextureSampling {
  std::array<std::uint32_t, 3> address_modes{};
  std::uint32_t filter = 0;
  std::uint32_t flags = 0;
  std::uint32_t max_anisotropy = 0;
  std::uint32_t mipmap_filter = 0;
  float mipmap_bias = 0;
  float mipmap_least = 0;
  float mipmap_most = 0;
  std::array<float, 4> border{};
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.address_modes);
    visit(self.filter);
    visit(self.flags);
    visit(self.max_anisotropy);
    visit(self.mipmap_filter);
    visit(self.mipmap_bias);
    visit(self.mipmap_least);
    visit(self.mipmap_most);
    visit(self.border);
  }
};

// Which part of an array a texture object shows: the fields of CUDA_RESOURCE_VIEW_DESC.
struct TextureView {
  std::uint32_t format = 0;
  std::uint64_t width = 0, height = 0, depth = 0;
  std::uint32_t first_level = 0, last_level = 0, first_layer = 0, last_layer = 0;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.format);
    visit(self.width);
    visit(self.height);
    visit(self.depth);
    visit(self.first_level);
    visit(self.last_level);
    visit(self.first_layer);
    visit(self.last_layer);
  }
};

inline constexpr std::uint64_t kUnknownBytes = ~std::uint64_t{0};

// A snapshot of a device: all that is asked about it without a context.
struct DeviceDescription {
  std::string host;
  std::uint32_t agent = 0;    // Rank of the agent that serves it.
  std::uint32_t ordinal = 0;  // As that node's driver counts.
  std::string name;
  std::array<std::uint8_t, 16> uuid{};
  std::string pci_bus_id;
  std::uint64_t memory_bytes = 0;
  std::uint32_t driver_version = 0;  // As cuDriverGetVersion says.
  bool software = false;
  bool virtual_memory = false;  // The driver can map memory where we ask.
  bool mig = false;             // A part of a GPU (multi-instance GPU).
  // Of its memory, when the agent looked; kUnknownBytes where that could not be learned.
  std::uint64_t free_bytes = kUnknownBytes;
  std::vector<std::int32_t>
      attributes;  // Indexed by CUdevice_attribute; 0 where the driver knows none.
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.host);
    visit(self.agent);
    visit(self.ordinal);
    visit(self.name);
    visit(self.uuid);
    visit(self.pci_bus_id);
    visit(self.memory_bytes);
    visit(self.driver_version);
    visit(self.software);
    visit(self.virtual_memory);
    visit(self.mig);
    visit(self.free_bytes);
    visit(self.attributes);
  }
};

// A run that waits for GPUs of a host, or holds some, as its ticket there says.
struct LeaseTicket {
  std::uint64_t order = 0;  // When it was started, in ns since 1970: its place in every queue.
  std::string run;          // Its id.
  std::string host;         // Where the ticket is.
  std::string user;         // As the kernel knows the ticket's owner.
  std::string program;      // The rest is the run's own word.
  bool waiting = false;
  std::uint32_t wanted = 0;       // GPUs in all, of all hosts; 0: as many as there are.
  std::vector<std::string> gpus;  // That it holds on this host.
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.order);
    visit(self.run);
    visit(self.host);
    visit(self.user);
    visit(self.program);
    visit(self.waiting);
    visit(self.wanted);
    visit(self.gpus);
  }
};

// Which of the run's devices a process sees, as its environment has it.
struct VisibleDevices {
  bool chosen = false;               // CUDA_VISIBLE_DEVICES is set:
  std::string choice;                // to this.
  std::uint32_t devices_a_rank = 0;  // Of an MPI program whose ranks each have their own; 0: all.
  std::uint32_t rank = 0;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.chosen);
    visit(self.choice);
    visit(self.devices_a_rank);
    visit(self.rank);
  }
};

// How often an op was posted, or a call made.
struct OpCount {
  std::uint16_t op = 0;
  std::uint64_t count = 0;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.op);
    visit(self.count);
  }
};

// What one session did with one device: `cuspan run --stats`.
struct DeviceReport {
  std::uint32_t session = 0;
  std::uint32_t device = 0;
  std::string host;
  std::string name;
  bool relayed = false;  // Through agents; otherwise client and proxy share memory.
  std::vector<OpCount> ops;
  std::uint64_t bytes_to_device = 0;
  std::uint64_t bytes_from_device = 0;
  std::uint64_t wait_nanoseconds = 0;
  template <typename Self, typename Visitor>
  static void VisitFields(Self& self, Visitor&& visit) {
    visit(self.session);
    visit(self.device);
    visit(self.host);
    visit(self.name);
    visit(self.relayed);
    visit(self.ops);
    visit(self.bytes_to_device);
    visit(self.bytes_from_device);
    visit(self.wait_nanoseconds);
  }
};

}  // namespace cuspan

#include "store/library/array.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "common/log.h"
#include "store/layout/npy.h"

namespace cuspan::store {
namespace {

bool IsNpy(const cuspanArrayConfig_t& config) {
  if (config.format != CUSPAN_FORMAT_AUTO) return config.format == CUSPAN_FORMAT_NPY;
  return config.path != nullptr && std::string_view(config.path).ends_with(".npy");
}

Status CheckConfig(const cuspanArrayConfig_t& config) {
  if (config.format > CUSPAN_FORMAT_NPY)
    return Status::Invalid("{} is no format of a file", unsigned{config.format});
  if (config.backing > CUSPAN_BACKING_DEVICE)
    return Status::Invalid("{} is no backing of an array", unsigned{config.backing});
  if (config.path != nullptr && *config.path == '\0')
    return Status::Invalid("the path of the file is empty");
  if (IsNpy(config) && (config.dimensions != 0 || config.offset != 0))
    return Status::Invalid(
        "shape and offset of an .npy file are those of its header: leave them 0");
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Array>> Array::Open(const cuspanArrayConfig_t& config,
                                           std::shared_ptr<Cache> cache) {
  CUSPAN_RETURN_IF_ERROR(CheckConfig(config));
  CUSPAN_RETURN_IF_ERROR(CheckElement({config.element, config.kind}, cache->geometry().line()));
  const CurrentContext current(*cache->context());
  CUSPAN_RETURN_IF_ERROR(current.status());
  std::unique_ptr<Array> array(new Array(std::move(cache)));
  CUSPAN_RETURN_IF_ERROR(array->OpenIn(config));
  return array;
}

Status Array::OpenIn(const cuspanArrayConfig_t& config) {
  CUSPAN_ASSIGN_OR_RETURN(file_, StoredFile::Open(cache_->context(), config));
  CUSPAN_ASSIGN_OR_RETURN(const ArrayShape shape, Shape(config));
  CUSPAN_RETURN_IF_ERROR(CheckShape(shape, config.element, file_->bytes()));
  cache_->Fill(tables_);
  view_.count = shape.count;
  std::copy(shape.sizes.begin(), shape.sizes.end(), view_.shape);
  view_.dimensions = shape.dimensions;
  view_.line_shift_ = cache_->geometry().line_shift;
  view_.start_ = shape.start;
  tables_.start = shape.start;
  tables_.end = file_->bytes();
  view_.counts_reads_ = config.counts_reads;
  CUSPAN_ASSIGN_OR_RETURN(
      report_, DeviceMemory::Allocate(driver(), CUSPAN_REPORT_WORDS * sizeof(std::uint64_t), 0,
                                      "an array's counters"));
  tables_.report = report_.as<std::uint64_t>();
  backing_ = config.backing;
  if (backing_ == CUSPAN_BACKING_FILE) {
    const Status served = ServeFromFile();
    if (served.code() == StatusCode::kUnsupported) {
      LogInfo("an array is read into device memory: {}", served.message());
      backing_ = CUSPAN_BACKING_DEVICE;
    } else {
      CUSPAN_RETURN_IF_ERROR(served);
    }
  } else if (backing_ != CUSPAN_BACKING_DEVICE) {
    CUSPAN_RETURN_IF_ERROR(HoldOnHost());
  }
  if (backing_ == CUSPAN_BACKING_DEVICE) CUSPAN_RETURN_IF_ERROR(FillDevice(config.element));
  return CopyTables();
}

Result<ArrayShape> Array::Shape(const cuspanArrayConfig_t& config) {
  if (!IsNpy(config)) return ShapeOfRaw(config, file_->bytes());
  std::vector<std::byte> start(kMaxNpyHeader);
  CUSPAN_ASSIGN_OR_RETURN(const std::size_t got, file_->Peek(start));
  return ShapeOfNpy(std::span(start).first(got), {config.element, config.kind});
}

Status Array::FillDevice(std::uint32_t element) {
  const std::uint64_t bytes = view_.count * element;
  // Never null: a view without it reads by lines.
  CUSPAN_ASSIGN_OR_RETURN(
      all_, DeviceMemory::Allocate(driver(), std::max<std::uint64_t>(bytes, 1), 0, "an array"));
  if (bytes != 0) CUSPAN_RETURN_IF_ERROR(file_->Fill(all_.address(), view_.start_, bytes));
  view_.all_ = all_.as<const unsigned char>();
  return Status::Ok();
}

Status Array::CheckTableFits() const {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
  if (const CUresult result = driver().cuMemGetInfo(&free, &total); result != CUDA_SUCCESS)
    return driver().Failure("free device memory", result);
  return CheckTable(file_->bytes(), cache_->geometry(), free);
}

Status Array::HoldOnHost() {
  // No line, and no element: nothing is read.
  if (view_.count == 0) return Status::Ok();
  if (backing_ != CUSPAN_BACKING_HOST) CUSPAN_RETURN_IF_ERROR(CheckTableFits());
  CUSPAN_ASSIGN_OR_RETURN(resident_, file_->Hold());
  if (backing_ == CUSPAN_BACKING_HOST) {
    view_.all_ = reinterpret_cast<const unsigned char*>(resident_.address + view_.start_);
    return Status::Ok();
  }
  return MakeTables();
}

Status Array::ServeFromFile() {
  if (view_.count == 0) return Status::Ok();
  CUSPAN_RETURN_IF_ERROR(CheckTableFits());
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<MailboxUse> mailbox, cache_->UseMailbox());
  CUSPAN_ASSIGN_OR_RETURN(service_, mailbox->Begin());
  mailbox_ = std::move(mailbox);
  const Result<ServedPlaces> places = file_->Serve(service_);
  if (!places.ok()) {
    EndService();
    return places.status();
  }
  mailbox_->Fill(service_, *places, tables_);
  return MakeTables();
}

void Array::EndService() {
  if (mailbox_ != nullptr) mailbox_->End(service_);
  mailbox_.reset();
}

Status Array::MakeTables() {
  const std::uint64_t lines = LinesOf(file_->bytes(), cache_->geometry());
  CUSPAN_ASSIGN_OR_RETURN(words_, DeviceMemory::Allocate(driver(), lines * sizeof(std::uint64_t), 0,
                                                         "the words of an array's lines"));
  CUSPAN_ASSIGN_OR_RETURN(
      extents_, DeviceMemory::Allocate(driver(), ExtentsOf(file_->bytes()) * sizeof(std::uint64_t),
                                       0, "the addresses of an array's extents"));
  if (resident_.address != 0) {
    std::vector<std::uint64_t> addresses(ExtentsOf(file_->bytes()));
    for (std::size_t i = 0; i < addresses.size(); ++i)
      addresses[i] = resident_.address + i * kExtentBytes;
    if (const CUresult result =
            driver().cuMemcpyHtoD(extents_.address(), addresses.data(), extents_.bytes());
        result != CUDA_SUCCESS)
      return driver().Failure("the addresses of an array's extents", result);
  }
  tables_.words = words_.as<std::uint64_t>();
  tables_.extents = extents_.as<std::uint64_t>();
  cache_->Add(words_);
  return Status::Ok();
}

Status Array::CopyTables() {
  CUSPAN_ASSIGN_OR_RETURN(tables_copy_,
                          DeviceMemory::Allocate(driver(), sizeof tables_, 0, "an array's tables"));
  view_.words_ = tables_.words;
  view_.slots_ = tables_.slots;
  view_.report_ = tables_.report;
  view_.tables_ = tables_copy_.as<const cuspanArrayTables>();
  CUresult result = driver().cuMemcpyHtoD(tables_copy_.address(), &tables_, sizeof tables_);
  // Kernels in other streams do not wait for copies and zeros.
  if (result == CUDA_SUCCESS) result = driver().cuStreamSynchronize(nullptr);
  if (result != CUDA_SUCCESS) return driver().Failure("an array's tables", result);
  seen_ = true;
  return Status::Ok();
}

Array::~Array() {
  if (Close().ok() || !open_) return;
  // Kernels may still use it.
  for (DeviceMemory* memory : Memories()) memory->Release();
  if (mailbox_ != nullptr) static_cast<void>(new std::shared_ptr<MailboxUse>(mailbox_));
  static_cast<void>(file_.release());
  cache_->EndUse();
}

std::array<DeviceMemory*, 5> Array::Memories() {
  return {&report_, &tables_copy_, &words_, &extents_, &all_};
}

Status Array::Close() {
  if (!open_) return Status::Ok();
  const CurrentContext current(*cache_->context());
  Status closed = current.status();
  if (!closed.ok()) {
    // The context was reset: its memory is gone, and no kernel runs.
    for (DeviceMemory* memory : Memories()) memory->Release();
    if (mailbox_ != nullptr) mailbox_->Release();
    closed = Status::NotFound("the device was reset: its arrays are gone");
  } else if (!seen_) {
    cache_->Forget(words_);
  } else if (words_.address() != 0) {
    closed = cache_->Remove(words_);
    if (closed.code() == StatusCode::kRefused) return closed;
  } else if (const CUresult result = driver().cuCtxSynchronize(); result != CUDA_SUCCESS) {
    if (OfCapture(result))
      return Status::Refused("a stream is in capture: end it before an array is closed");
    closed = driver().Failure("kernels that read an array", result);
  }
  open_ = false;
  for (DeviceMemory* memory : Memories()) *memory = DeviceMemory();
  file_.reset();
  EndService();
  cache_->EndUse();
  return closed;
}

Result<std::array<std::uint64_t, CUSPAN_REPORT_WORDS>> Array::ReadReport() const {
  const CurrentContext current(*cache_->context());
  CUSPAN_RETURN_IF_ERROR(current.status());
  std::array<std::uint64_t, CUSPAN_REPORT_WORDS> report{};
  const CUresult result = driver().cuMemcpyDtoH(report.data(), report_.address(), sizeof report);
  if (result != CUDA_SUCCESS) return driver().Failure("an array's counters", result);
  return report;
}

Status Array::Check() const {
  CUSPAN_ASSIGN_OR_RETURN(const auto report, ReadReport());
  if (report[CUSPAN_REPORT_ERROR] == CUSPAN_ERROR_READ) {
    // The better reason, if it is one.
    CUSPAN_RETURN_IF_ERROR(file_->Check());
    return Status::Internal("the file can not be read at byte {}: {}", report[CUSPAN_REPORT_INDEX],
                            std::strerror(static_cast<int>(report[CUSPAN_REPORT_ERRNO])));
  }
  if (report[CUSPAN_REPORT_ERROR] != 0)
    return Status::Invalid("a kernel read index {} of an array of {} elements",
                           static_cast<std::int64_t>(report[CUSPAN_REPORT_INDEX]), view_.count);
  return file_->Check();
}

Result<cuspanArrayStatistics_t> Array::GetStatistics() const {
  CUSPAN_ASSIGN_OR_RETURN(const auto report, ReadReport());
  cuspanArrayStatistics_t statistics = {};
  statistics.lines = report[CUSPAN_REPORT_LINES];
  statistics.past = report[CUSPAN_REPORT_PAST];
  statistics.reads = report[CUSPAN_REPORT_READS];
  statistics.bytes = report[CUSPAN_REPORT_BYTES];
  statistics.resident = resident_.bytes;
  statistics.copied = resident_.copied ? 1 : 0;
  statistics.device_bytes =
      report_.bytes() + tables_copy_.bytes() + words_.bytes() + extents_.bytes() + all_.bytes();
  if (mailbox_ != nullptr) {
    CUSPAN_ASSIGN_OR_RETURN(const ServedCounts served, file_->CountServed());
    statistics.served = served.reads;
    statistics.served_bytes = served.bytes;
    statistics.resident = served.resident;
    statistics.copied = served.copied ? 1 : 0;
    statistics.device_bytes += mailbox_->device_bytes();
  }
  statistics.backing = backing_;
  return statistics;
}

}  // namespace cuspan::store

// The functions of include/cuspan/store.h.
#include <memory>
#include <string>
#include <utility>

#include "common/log.h"
#include "include/cuspan/store.h"
#include "store/library/array.h"
#include "store/library/cache.h"
#include "store/library/handles.h"
#include "store/library/results.h"

using namespace cuspan;         // NOLINT: the entry points below are the C API.
using namespace cuspan::store;  // NOLINT

namespace {

#define CUSPAN_EXPORT extern "C" __attribute__((visibility("default")))

static_assert(sizeof(cuspanArrayView_t) == 96);

thread_local std::string last_message;

// Calls body() → Status.
template <typename Body>
int Answer(Body&& body) {
  const Status status = body();
  if (!status.ok()) {
    LogInfo("store: {}", status.message());
    last_message = status.message();
  }
  return ResultOf(status);
}

Handles<Cache>& Caches() {
  static auto* const kCaches = new Handles<Cache>("cache");
  return *kCaches;
}
Handles<Array>& Arrays() {
  static auto* const kArrays = new Handles<Array>("array");
  return *kArrays;
}

Status NoPlace(const char* wanted) { return Status::Invalid("there is no place for {}", wanted); }

}  // namespace

CUSPAN_EXPORT int cuspanCacheCreate(cuspanCache_t* cache, const cuspanCacheConfig_t* config) {
  return Answer([&]() -> Status {
    if (cache == nullptr || config == nullptr) return NoPlace("the cache or its sizes");
    CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Cache> made, Cache::Make(*config));
    *cache = Caches().Add<cuspanCache_t>(std::move(made));
    return Status::Ok();
  });
}

CUSPAN_EXPORT int cuspanCacheDestroy(cuspanCache_t cache) {
  return Answer([&]() -> Status {
    CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Cache> found, Caches().Find(cache));
    if (found->in_use()) return Status::Invalid("arrays use the cache: close them before");
    return Caches().Take(cache).status();
  });
}

CUSPAN_EXPORT int cuspanArrayOpen(cuspanArray_t* array, const cuspanArrayConfig_t* config,
                                  cuspanCache_t cache) {
  return Answer([&]() -> Status {
    if (array == nullptr || config == nullptr) return NoPlace("the array or its file");
    CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Cache> used, Caches().Find(cache));
    CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Array> opened, Array::Open(*config, std::move(used)));
    *array = Arrays().Add<cuspanArray_t>(std::move(opened));
    return Status::Ok();
  });
}

CUSPAN_EXPORT int cuspanArrayClose(cuspanArray_t array) {
  return Answer([&]() -> Status {
    CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Array> taken, Arrays().Take(array));
    Status closed = taken->Close();
    if (closed.code() == StatusCode::kRefused) Arrays().PutBack(array, std::move(taken));
    return closed;
  });
}

CUSPAN_EXPORT int cuspanArrayGetView(cuspanArray_t array, cuspanArrayView_t* view) {
  return Answer([&]() -> Status {
    if (view == nullptr) return NoPlace("the view");
    CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Array> found, Arrays().Find(array));
    *view = found->view();
    return Status::Ok();
  });
}

CUSPAN_EXPORT int cuspanArrayCheck(cuspanArray_t array) {
  return Answer([&]() -> Status {
    CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Array> found, Arrays().Find(array));
    return found->Check();
  });
}

CUSPAN_EXPORT int cuspanArrayGetStatistics(cuspanArray_t array,
                                           cuspanArrayStatistics_t* statistics) {
  return Answer([&]() -> Status {
    if (statistics == nullptr) return NoPlace("the statistics");
    CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Array> found, Arrays().Find(array));
    CUSPAN_ASSIGN_OR_RETURN(*statistics, found->GetStatistics());
    return Status::Ok();
  });
}

CUSPAN_EXPORT const char* cuspanStoreLastMessage() { return last_message.c_str(); }

// Mutexes checked by clang (-Wthread-safety; tests/structure/clang_test.py). A variable names the
// mutex guarding it, and a function the mutexes its caller must hold. Other compilers see the
// mutexes of the standard library and no annotations.
//
// The analysis looks at one function at a time. A lambda is a function of its own and needs its own
// annotation: `[this]() CUSPAN_REQUIRES(mutex_) { … }`.
// https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define CUSPAN_THREAD_ANNOTATION(...) __attribute__((__VA_ARGS__))
#else
#define CUSPAN_THREAD_ANNOTATION(...)
#endif

// After a variable: accessed only with the mutex held. PT: the same for the object it points to.
#define CUSPAN_GUARDED_BY(mutex) CUSPAN_THREAD_ANNOTATION(guarded_by(mutex))
#define CUSPAN_PT_GUARDED_BY(mutex) CUSPAN_THREAD_ANNOTATION(pt_guarded_by(mutex))
// After a function: the caller holds the mutex; holds the shared mutex at least as a reader; does
// not hold it.
#define CUSPAN_REQUIRES(...) CUSPAN_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define CUSPAN_REQUIRES_SHARED(...) \
  CUSPAN_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
#define CUSPAN_EXCLUDES(...) CUSPAN_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
// After a function: returns a reference to the mutex.
#define CUSPAN_RETURN_CAPABILITY(mutex) CUSPAN_THREAD_ANNOTATION(lock_returned(mutex))
// After a function outside the analysis's capabilities; a comment says why.
#define CUSPAN_NO_THREAD_SAFETY_ANALYSIS CUSPAN_THREAD_ANNOTATION(no_thread_safety_analysis)

// Applied to mutexes and locks themselves.
#define CUSPAN_CAPABILITY(name) CUSPAN_THREAD_ANNOTATION(capability(name))
#define CUSPAN_SCOPED_CAPABILITY CUSPAN_THREAD_ANNOTATION(scoped_lockable)
#define CUSPAN_ACQUIRE(...) CUSPAN_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define CUSPAN_ACQUIRE_SHARED(...) CUSPAN_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define CUSPAN_TRY_ACQUIRE(...) CUSPAN_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define CUSPAN_RELEASE(...) CUSPAN_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define CUSPAN_RELEASE_SHARED(...) CUSPAN_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define CUSPAN_ASSERT_CAPABILITY(mutex) CUSPAN_THREAD_ANNOTATION(assert_capability(mutex))

namespace cuspan {

// The functions have the standard's names: the standard's templates accept this as a mutex.
class CUSPAN_CAPABILITY("mutex") Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() CUSPAN_ACQUIRE() { mutex_.lock(); }
  bool try_lock() CUSPAN_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() CUSPAN_RELEASE() { mutex_.unlock(); }
  // Tells the analysis that the calling thread holds the mutex; no effect at run time.
  void AssertHeld() const CUSPAN_ASSERT_CAPABILITY(this) {}

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex during its lifetime, except between unlock() and lock().
class CUSPAN_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CUSPAN_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  // Takes over a mutex already held by the calling thread, after try_lock().
  MutexLock(Mutex& mutex, std::adopt_lock_t adopt) CUSPAN_REQUIRES(mutex)
      : lock_(mutex.mutex_, adopt) {}
  ~MutexLock() CUSPAN_RELEASE() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() CUSPAN_ACQUIRE() { lock_.lock(); }
  void unlock() CUSPAN_RELEASE() { lock_.unlock(); }
  // Converts to the lock type of std::condition_variable.
  operator std::unique_lock<std::mutex>&() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

// One writer, or any number of readers.
class CUSPAN_CAPABILITY("mutex") SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() CUSPAN_ACQUIRE() { mutex_.lock(); }
  void unlock() CUSPAN_RELEASE() { mutex_.unlock(); }
  void lock_shared() CUSPAN_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() CUSPAN_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

class CUSPAN_SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) CUSPAN_ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }
  ~WriterLock() CUSPAN_RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class CUSPAN_SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) CUSPAN_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex.lock_shared();
  }
  ~ReaderLock() CUSPAN_RELEASE() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace cuspan

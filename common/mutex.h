// Mutexes whose rules clang checks (-Wthread-safety; tests/structure/clang_test.py): a variable
// says what guards it, and a function what it is called with. Other compilers see the mutexes of
// the standard library and no rules.
//
// The analysis looks at one function at a time, and a lambda is a function of its own: one that is
// called with a mutex says so as well, `[this]() CUSPAN_REQUIRES(mutex_) { … }`.
// https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define CUSPAN_THREAD_ANNOTATION(...) __attribute__((__VA_ARGS__))
#else
#define CUSPAN_THREAD_ANNOTATION(...)
#endif

// After a variable: is used with the mutex only. PT: so is what it points to.
#define CUSPAN_GUARDED_BY(mutex) CUSPAN_THREAD_ANNOTATION(guarded_by(mutex))
#define CUSPAN_PT_GUARDED_BY(mutex) CUSPAN_THREAD_ANNOTATION(pt_guarded_by(mutex))
// After a function: is called with the mutex, with a shared mutex at least as a reader, without.
#define CUSPAN_REQUIRES(...) CUSPAN_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define CUSPAN_REQUIRES_SHARED(...) \
  CUSPAN_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
#define CUSPAN_EXCLUDES(...) CUSPAN_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
// After a function: returns a reference to the mutex.
#define CUSPAN_RETURN_CAPABILITY(mutex) CUSPAN_THREAD_ANNOTATION(lock_returned(mutex))
// After a function that the analysis can not follow; a comment says why.
#define CUSPAN_NO_THREAD_SAFETY_ANALYSIS CUSPAN_THREAD_ANNOTATION(no_thread_safety_analysis)

// Of mutexes and locks themselves.
#define CUSPAN_CAPABILITY(name) CUSPAN_THREAD_ANNOTATION(capability(name))
#define CUSPAN_SCOPED_CAPABILITY CUSPAN_THREAD_ANNOTATION(scoped_lockable)
#define CUSPAN_ACQUIRE(...) CUSPAN_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define CUSPAN_ACQUIRE_SHARED(...) CUSPAN_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define CUSPAN_TRY_ACQUIRE(...) CUSPAN_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define CUSPAN_RELEASE(...) CUSPAN_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define CUSPAN_RELEASE_SHARED(...) CUSPAN_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define CUSPAN_ASSERT_CAPABILITY(mutex) CUSPAN_THREAD_ANNOTATION(assert_capability(mutex))

namespace cuspan {

// The functions have the standard's names, so that its templates take this as a mutex.
class CUSPAN_CAPABILITY("mutex") Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() CUSPAN_ACQUIRE() { mutex_.lock(); }
  bool try_lock() CUSPAN_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() CUSPAN_RELEASE() { mutex_.unlock(); }
  // Tells the analysis that the calling thread has the mutex; does nothing.
  void AssertHeld() const CUSPAN_ASSERT_CAPABILITY(this) {}

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Has a mutex while it lives, but for the time between unlock() and lock().
class CUSPAN_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CUSPAN_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  // Of one that the calling thread has, after try_lock().
  MutexLock(Mutex& mutex, std::adopt_lock_t adopt) CUSPAN_REQUIRES(mutex)
      : lock_(mutex.mutex_, adopt) {}
  ~MutexLock() CUSPAN_RELEASE() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() CUSPAN_ACQUIRE() { lock_.lock(); }
  void unlock() CUSPAN_RELEASE() { lock_.unlock(); }
  // What a std::condition_variable waits with.
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

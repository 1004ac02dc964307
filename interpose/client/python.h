// The part of Python's C API for asking an interpreter in this process about its threads. Functions
// are found by name: a process without Python needs none. Versions 3.10 and later, with the lock
// (not free-threaded).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace cuspan {

class Python {
 public:
  // Null if the process has no interpreter, or a function is missing. Threads: any.
  static const Python* Find();

  // True if the calling thread holds Python's lock, and may call LocationHere.
  bool ThisThreadHoldsLock() const;
  // Returns the calling thread's line of the program: "FILE:LINE (FUNCTION)". It is the innermost
  // line outside of installed packages and Python's library, if there is one. Empty if Python
  // cannot be asked now. The thread holds the lock.
  std::string LocationHere() const;

  // --- Asking about all other threads: one client thread, always the same

  // False if the interpreter has ended or is about to. Otherwise it does not end before StopAsking.
  bool StartAsking() const;
  // Takes Python's lock, perhaps after a long wait; its result is for ReturnLock. If the
  // interpreter ends before the exit handler is registered (in the first moments of a process), it
  // ends the calling thread in here. Frames below this one must own nothing with a destructor.
  int AcquireLock() const { return ensure_(); }
  void ReturnLock(int taken) const { release_(taken); }
  void StopAsking() const;
  // Returns the line of each of these threads known to Python, by number. The lock is held.
  std::map<std::uint64_t, std::string> LocationsOf(const std::set<std::uint64_t>& threads) const;

 private:
  using Object = void;  // PyObject, reference-counted.
  struct Owned;
  struct Method;  // PyMethodDef
  template <typename Function>
  static bool Load(const char* name, Function*& function);
  bool LoadAll();
  static Object* OnExit(Object* self, Object* arguments);
  bool RegisterExit() const;
  std::string LocationOf(Object* frame) const;
  std::string TextOf(Object* object, const char* attribute) const;
  long NumberOf(Object* object, const char* attribute) const;

  int (*is_initialized_)();
  int (*ensure_)();
  void (*release_)(int);
  void* (*own_thread_)();
  void* (*current_thread_)();
  void* (*save_thread_)();
  void (*restore_thread_)(void*);
  int (*disable_collection_)();
  int (*enable_collection_)();
  Object* (*error_occurred_)();
  void (*clear_error_)();
  Object* (*frame_)();
  Object* (*of_sys_)(const char*);
  Object* (*import_)(const char*);
  Object* (*call_)(Object*, Object*);
  Object* (*call_with_)(Object*, ...);
  Object* (*attribute_)(Object*, const char*);
  int (*next_)(Object*, std::intptr_t*, Object**, Object**);
  unsigned long (*as_unsigned_)(Object*);
  long (*as_long_)(Object*);
  const char* (*as_utf8_)(Object*);
  Object* (*new_function_)(Method*, Object*, Object*);
  void* (*first_interpreter_)();
  void* (*next_interpreter_)(void*);
  void (*decrease_)(Object*);
  void (*increase_)(Object*);
  Object* none_;
};

}  // namespace cuspan

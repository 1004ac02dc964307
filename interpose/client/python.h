// Python's C API, as far as we ask an interpreter that lives in this process about its threads.
// Found by name, so that a process without Python needs none; of versions 3.10 and later, with
// the lock (not free-threaded).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace cuspan {

class Python {
 public:
  // Null where the process has no interpreter, or one that lacks a function. Any thread.
  static const Python* Find();

  // Whether the calling thread holds Python's lock, and may be asked with PlaceHere.
  bool ThisThreadHoldsLock() const;
  // The line of the program that the calling thread is on: "FILE:LINE (FUNCTION)", the innermost
  // that is not in an installed package or Python's library if there is one. Empty where nothing
  // can be asked now. The thread holds the lock.
  std::string PlaceHere() const;

  // --- A thread of ours asks about all others, one at a time, always the same.

  // False when the interpreter ends, or is about to; else it does not before StopAsking.
  bool StartAsking() const;
  // Takes Python's lock, for which it may wait long; for ReturnLock. An interpreter that ends
  // before it has been told not to (in the first moments of a process) ends the calling thread in
  // here: frames below this one must have nothing to destroy.
  int TakeLock() const { return ensure_(); }
  void ReturnLock(int taken) const { release_(taken); }
  void StopAsking() const;
  // The line of each of these threads that is one of Python's, by number. With the lock.
  std::map<std::uint64_t, std::string> PlacesOf(const std::set<std::uint64_t>& threads) const;

 private:
  using Object = void;  // PyObject, of which the reference is counted.
  struct Owned;
  struct Method;  // PyMethodDef
  template <typename Function>
  static bool Load(const char* name, Function*& function);
  bool LoadAll();
  static Object* OnExit(Object* self, Object* arguments);
  bool TellOfExit() const;
  std::string PlaceOf(Object* frame) const;
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

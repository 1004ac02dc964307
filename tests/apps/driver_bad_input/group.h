// What the groups of driver_bad_input share. Each runs in a process of its own.
#pragma once

#include <cuda.h>
#include <cudaProfiler.h>

#include <string>

#include "tests/apps/driver_check.h"

// A call begins: whether it is to be made. It has the seconds of kMaxSeconds until the next one.
bool Begin(const char* text);

// It ended: prints `group: text = result`.
void Tell(const char* text, const std::string& result);
void Tell(const char* text, CUresult result);

template <typename Call>
void Bad(const char* text, Call&& call) {
  if (Begin(text)) Tell(text, call());
}

// Makes the call, and tells what it returned under the given text, or under the call's own.
#define BAD_AS(text, ...) Bad(text, [&] { return (__VA_ARGS__); })
#define BAD(...) BAD_AS(#__VA_ARGS__, __VA_ARGS__)

// A call that the GPU's driver does not survive, does not return from, or answers now so and now so
// from memory that is freed: made only with --fatal.
bool WithFatal();
#define FATAL(...) \
  if (WithFatal()) BAD(__VA_ARGS__)

// Device 0 is there and has no context.
void Start();

// As Start, with a new context that is current.
CUcontext StartContext();

// kernel(.param .u64 words, .param .u32 count, .param .u32 factor), shared memory of 16 bytes, and
// the variable `counter` of 4 bytes.
extern const char* const kPtx;

struct Code {
  CUmodule module;
  CUfunction kernel;
};
Code LoadCode();

template <typename T>
T Rubbish(int number) {
  return static_cast<T>(number);
}

// One function a group, in the file of its family.
void BeforeInit();
void Errors();
void Names();
void Devices();
void PrimaryContexts();

void NoContext();
void Contexts();
void DestroyedContext();
void OtherContext();
void OtherThread();
void Peers();

void Modules();
void Images();
void Functions();
void Libraries();
void Linker();
void Launches();
void LaunchBuffers();
void Occupancy();
void AfterFault();

void Memory();
void HostMemory();
void Copies();
void BoxCopies();
void Sets();
void Managed();
void Pools();
void VirtualMemory();
void Pointers();
void Ipc();

void Arrays();
void Textures();
void Surfaces();

void Streams();
void Capture();
void Events();
void Graphs();
void GraphNodes();
void GraphExecs();

void NullHandles();

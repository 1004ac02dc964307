// Address ranges in the address plan of a session.
#pragma once

#include <cstdint>

namespace cuspan {

// The devices' windows, consecutively.
inline constexpr std::uint64_t kWindowsBase = 0x1800'0000'0000;
inline constexpr std::uint64_t kWindowsEnd = 0x4500'0000'0000;
// Ranges reserved by programs (cuMemAddressReserve), of all devices. Frameworks reserve more than a
// device's memory for each of their pools.
inline constexpr std::uint64_t kReservationsBase = kWindowsEnd;
inline constexpr std::uint64_t kReservationsEnd = 0x5500'0000'0000;
// A proxy takes them from the driver in aligned blocks of this size, the size of a window. At the
// start of the range, driver 580 provided 3.2 GiB, but neither 2 MiB nor 8 MiB.
inline constexpr std::uint64_t kReservationBlock = std::uint64_t{256} << 30;

// True if all of [address, address + bytes) is in the range for reservations.
constexpr bool MayReserve(std::uint64_t address, std::uint64_t bytes) {
  return address >= kReservationsBase && address < kReservationsEnd &&
         bytes <= kReservationsEnd - address;
}

}  // namespace cuspan

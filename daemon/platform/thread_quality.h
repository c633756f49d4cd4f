// Tells the system how urgent the calling thread's work is.
//
// Under load macOS runs threads without such a class on its efficiency cores and lets their timers
// be late; neither threads nor started programs inherit it. Linux has no such thing.
//
// Thread: the one that it is about.
#pragma once

namespace mlxcomm::platform {

// The user waits for it: loop, rails, workers, callers of a device's driver.
void ServeWhoWaits();

}  // namespace mlxcomm::platform

// What a program sets for a stream beside its flags and priority: hints about caches, waiting and
// memory domains. None changes what a program computes, so they are kept and answered here.
#pragma once

#include <cuda.h>

#include "interpose/calls/error.h"
#include "interpose/client/session.h"

namespace cuspan {

Error GetStreamAttribute(CUstream stream, CUlaunchAttributeID attribute,
                         CUlaunchAttributeValue* value, DefaultStream meaning);
Error SetStreamAttribute(CUstream stream, CUlaunchAttributeID attribute,
                         const CUlaunchAttributeValue* value, DefaultStream meaning);
Error CopyStreamAttributes(CUstream to, CUstream from, DefaultStream meaning);

}  // namespace cuspan

# The library by whose name programs find a face, and the functions of it that only refuse.

# cuspan_face_library(NAME LIBRARY VERSION ALONE): the functions of NAME_exports.txt that the object library
# cuspan_NAME_face does not define call cuspan_NAME_not_supported. LIBRARY is the name of NVIDIA's
# library without "lib", VERSION that of its name: each of its functions is libcuspan.so's, which a run
# preloads, and which it loads otherwise. It needs no library by itself: a program that is linked
# statically as a whole would get a second C library, whose thread-local storage glibc puts where there is
# none. There each function returns ALONE.
function(cuspan_face_library name library version alone)
  set(load ${PROJECT_SOURCE_DIR}/interpose/load)
  set(exports ${CMAKE_CURRENT_SOURCE_DIR}/${name}_exports.txt)
  set(table cuspan_${name}_exports)
  set(refusing ${CMAKE_CURRENT_BINARY_DIR}/${name}_refusing.c)
  set(forwarding ${CMAKE_CURRENT_BINARY_DIR}/${name}_forwarding.c)
  set(generate Python3::Interpreter ${load}/generate_exports.py ${exports})
  set(needs ${load}/generate_exports.py ${load}/exports_list.py ${exports})
  add_custom_command(
    OUTPUT ${refusing}
    COMMAND ${generate} ${refusing} --refuse cuspan_${name}_not_supported --table ${table} --versions
    DEPENDS ${needs}
    COMMENT "Generating the functions of lib${library}.so.${version} that refuse"
    VERBATIM)
  add_custom_command(
    OUTPUT ${forwarding}
    COMMAND ${generate} ${forwarding} --forward-to ${table} --alone ${alone}
    DEPENDS ${needs}
    COMMENT "Generating lib${library}.so.${version}"
    VERBATIM)

  # A library of its own: one with sources in C and in C++ has no precompiled headers.
  add_library(${table} OBJECT ${refusing})
  target_sources(cuspan_${name}_face INTERFACE $<TARGET_OBJECTS:${table}>)
  add_library(cuspan_${name}_library SHARED ${forwarding})
  # Programs close it and go on to call functions that they found there (Open MPI 4.1 does): natively
  # the CUDA runtime still has it open.
  target_link_options(cuspan_${name}_library PRIVATE -nostdlib -Wl,-z,now -Wl,-z,nodelete)
  set_target_properties(cuspan_${name}_library PROPERTIES
    OUTPUT_NAME ${library} VERSION ${version} SOVERSION ${version}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/cuspan/runtime)
  install(TARGETS cuspan_${name}_library LIBRARY DESTINATION lib/cuspan/runtime)
endfunction()
